#include "millrace/pipeline/run/memory_budget.h"

#include <algorithm>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

constexpr int64_t kLeast = int64_t{1} << 20;

// The limit of the control group (version 2), or INT64_MAX.
int64_t control_group_limit() {
  std::ifstream file("/sys/fs/cgroup/memory.max");
  int64_t bytes = 0;
  return file >> bytes && bytes > 0 ? bytes : INT64_MAX;
}

// What all may take together beside functions of users: the budget, a tenth, and what does not grow with the data.
int64_t most_in_use(int64_t budget) {
  constexpr int64_t kBeside = int64_t{48} << 20;
  int64_t most = 0;
  return __builtin_add_overflow(budget, budget / 10 + kBeside, &most) ? INT64_MAX : most;
}

}  // namespace

// An eighth is left to what the consumer waits for.
MemoryBudget::MemoryBudget(BufferPool& pool, int64_t bytes)
    : bytes_(bytes), for_running_ahead_(bytes - bytes / 8), pool_(pool) {
  pool_.set_limit(bytes_, for_running_ahead_ - for_running_ahead_ / 16, [this] {
    for (Waiter* waiter : waiters_) waiter->room_made();
  });
  pool_.refuse_beyond(most_in_use(bytes_), bytes_);
}

MemoryBudget::~MemoryBudget() { close(); }

void MemoryBudget::close() { pool_.set_limit(bytes_, 0, nullptr); }

bool MemoryBudget::has_room(int64_t bytes) const noexcept {
  return pool_.bytes_in_use() + reserved_.load(std::memory_order_relaxed) + bytes <= for_running_ahead_;
}

bool MemoryBudget::reserve(int64_t bytes) noexcept {
  const int64_t before = reserved_.fetch_add(bytes);
  if (pool_.bytes_in_use() + before + bytes <= for_running_ahead_) return true;
  reserved_.fetch_sub(bytes);
  return false;
}

int64_t checked_memory_budget(int64_t bytes) {
  if (bytes == 0) {
    const int64_t physical = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
    return std::max(kLeast, std::min(physical, control_group_limit()) / 2);
  }
  if (bytes < kLeast) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("start: memory_budget is {} bytes, must be at least {}, or 0 for half of the "
                                     "machine's memory",
                                     bytes, kLeast));
  }
  return bytes;
}

}  // namespace millrace
