#include "ops/arriving_rows.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "formats/columnar/ask_for_memory.h"
#include "ops/stage.h"

namespace millrace {
namespace {

// Larger blocks would be in memory twice.
constexpr int64_t kMostBytes = 8 * kBlockBytes;
// Chunks of shards that are read in turn, beside what the rows themselves have.
constexpr int64_t kMostHeld = int64_t{8} << 20;

}  // namespace

/// Where the rows of a block came in.
class ArrivingRows::Source final : public Resource {
 public:
  explicit Source(Column records) : records_(std::move(records)) {}
  std::string_view record(size_t element) const { return records_.values<std::string_view>()[element]; }

 private:
  void release() noexcept override { delete this; }
  const Column records_;
};

/// The copies of one block.
class ArrivingRows::Copies final : public Job {
 public:
  Copies(Ref<Source> source, size_t most, std::shared_ptr<const void> slab)
      : source_(std::move(source)), slab_(std::move(slab)) {
    copies_.reserve(most);
  }

  void add(std::string_view from, std::byte* to) { copies_.push_back({from, to}); }

  // By one of those who ask.
  Done run() noexcept override {
    if (begun_.exchange(true)) return {};
    Done done;
    for (size_t i = 0; i < copies_.size(); ++i) {
      // The memory for the next row is on its way while this one is copied.
      if (i + 1 < copies_.size()) ask_for_memory</*kForWrite=*/true>(copies_[i + 1].to, copies_[i + 1].from.size());
      if (!copies_[i].from.empty()) std::memcpy(copies_[i].to, copies_[i].from.data(), copies_[i].from.size());
      ++done.rows;
      done.bytes += static_cast<int64_t>(copies_[i].from.size());
    }
    // Whoever ran it may keep it for a while.
    source_ = {};
    slab_ = {};
    made_.store(true, std::memory_order_release);
    return done;
  }
  bool made() const noexcept { return made_.load(std::memory_order_acquire); }

 private:
  struct Copy {
    std::string_view from;
    std::byte* to;
  };

  void release() noexcept override { delete this; }

  Ref<Source> source_;
  std::shared_ptr<const void> slab_;  // the memory that is written to
  std::vector<Copy> copies_;
  std::atomic<bool> begun_{false};
  std::atomic<bool> made_{false};
};

ArrivingRows::ArrivingRows(RowSlab& slab, JobRunner* job_runner, MemoryGate* memory)
    : slab_(slab), job_runner_(job_runner), memory_(memory) {}

ArrivingRows::~ArrivingRows() = default;

bool ArrivingRows::begin_block(const Column& records, int64_t first) {
  if (job_runner_ == nullptr) return false;
  forget_copied();
  if (arrived_.size() >= job_runner_->most_jobs()) return false;
  const int64_t bytes = records.byte_size();
  if (bytes > kMostBytes || records.held_bytes() > kMostHeld + 16 * bytes) return false;
  if (memory_ != nullptr) {
    if (!memory_->admit_ahead(bytes)) {
      make_all();
      return false;
    }
    memory_->taken(bytes);
  }
  const Ref<Source> source(new Source(records));
  const Ref<Copies> copies(new Copies(source, records.num_elements(), slab_.memory()));
  arrived_.push_back({first, static_cast<int64_t>(records.num_elements()), source, copies, {}});
  return open_ = true;
}

RowSlab::Slot ArrivingRows::add(std::string_view record) {
  const RowSlab::Slot slot = slab_.allocate(record.size());
  arrived_.back().copies->add(record, slab_.data(slot));
  return slot;
}

bool ArrivingRows::take_uncopied(int64_t row, RowSlab::Slot slot, Uncopied& out) {
  for (Arrived& arrived : arrived_) {
    if (row < arrived.first) return false;
    if (row >= arrived.first + arrived.count) continue;
    if (arrived.copies->made()) return false;
    out = {arrived.source->record(static_cast<size_t>(row - arrived.first)), arrived.source};
    arrived.left.push_back(slot);
    return true;
  }
  return false;
}

void ArrivingRows::end_block() {
  if (!std::exchange(open_, false)) return;
  const Ref<Copies>& copies = arrived_.back().copies;
  if (!job_runner_->take(copies)) copies->run();
}

void ArrivingRows::make_all() {
  for (const Arrived& arrived : arrived_) arrived.copies->run();
  forget_copied();
}

void ArrivingRows::forget_copied() {
  while (!arrived_.empty() && arrived_.front().copies->made()) {
    for (const RowSlab::Slot slot : arrived_.front().left) slab_.free(slot);
    arrived_.pop_front();
  }
}

}  // namespace millrace
