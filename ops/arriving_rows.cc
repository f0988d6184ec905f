#include "ops/arriving_rows.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "ops/stage.h"

namespace millrace {
namespace {

// Larger blocks would be in memory twice.
constexpr int64_t kMostBytes = 8 * kBlockBytes;
// Chunks of shards that are read in turn, beside what the rows themselves have.
constexpr int64_t kMostHeld = int64_t{8} << 20;

void prefetch_for_write(const std::byte* memory, size_t bytes) {
  constexpr size_t kLine = 64;
  constexpr size_t kMost = 4096;  // of longer rows the processor asks for the rest by itself
  for (size_t line = 0; line < std::min(bytes, kMost); line += kLine) __builtin_prefetch(memory + line, 1);
}

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
class ArrivingRows::Copies final : public Resource {
 public:
  Copies(Ref<Source> source, size_t most, std::shared_ptr<const void> slab)
      : source_(std::move(source)), slab_(std::move(slab)) {
    copies_.reserve(most);
  }

  void add(std::string_view from, std::byte* to) { copies_.push_back({from, to}); }

  // By one of those who ask.
  void make() noexcept {
    if (begun_.exchange(true)) return;
    for (size_t i = 0; i < copies_.size(); ++i) {
      // The memory for the next row is on its way while this one is copied.
      if (i + 1 < copies_.size()) prefetch_for_write(copies_[i + 1].to, copies_[i + 1].from.size());
      if (!copies_[i].from.empty()) std::memcpy(copies_[i].to, copies_[i].from.data(), copies_[i].from.size());
    }
    // Whoever has the errand may keep it for long.
    source_ = {};
    slab_ = {};
    made_.store(true, std::memory_order_release);
  }
  bool made() const noexcept { return made_.load(std::memory_order_acquire); }

  // What makes the copies when it is let go. Once.
  Ref<Resource> errand() {
    errand_.copies = Ref<Copies>(this);
    return Ref<Resource>(&errand_);
  }

 private:
  struct Copy {
    std::string_view from;
    std::byte* to;
  };
  struct Errand final : public Resource {
    void release() noexcept override {
      const Ref<Copies> last = std::exchange(copies, {});  // this object may go with it
      last->make();
    }
    Ref<Copies> copies;
  };

  void release() noexcept override { delete this; }

  Ref<Source> source_;
  std::shared_ptr<const void> slab_;  // the memory that is written to
  std::vector<Copy> copies_;
  std::atomic<bool> begun_{false};
  std::atomic<bool> made_{false};
  Errand errand_;
};

ArrivingRows::ArrivingRows(RowSlab& slab, size_t most_blocks, MemoryGate* memory)
    : slab_(slab), most_blocks_(most_blocks), memory_(memory) {}

ArrivingRows::~ArrivingRows() = default;

bool ArrivingRows::begin_block(const Column& records, int64_t first) {
  forget_copied();
  // The oldest are being copied by somebody who was interrupted.
  if (arrived_.size() > most_blocks_ || most_blocks_ == 0) return false;
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

void ArrivingRows::give_errands(ColumnBuilder& leaving) {
  for (Arrived& arrived : arrived_) {
    if (arrived.given || (open_ && &arrived == &arrived_.back())) continue;
    arrived.given = true;
    leaving.hold(arrived.copies->errand());
  }
}

void ArrivingRows::make_copies() {
  for (const Arrived& arrived : arrived_) {
    if (!arrived.given && !(open_ && &arrived == &arrived_.back())) arrived.copies->make();
  }
  forget_copied();
}

void ArrivingRows::make_all() {
  for (const Arrived& arrived : arrived_) arrived.copies->make();
  forget_copied();
}

void ArrivingRows::forget_copied() {
  if (arrived_.size() > most_blocks_) arrived_.front().copies->make();
  while (!arrived_.empty() && arrived_.front().copies->made()) {
    for (const RowSlab::Slot slot : arrived_.front().left) slab_.free(slot);
    arrived_.pop_front();
  }
}

}  // namespace millrace
