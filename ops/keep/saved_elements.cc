#include "millrace/ops/keep/saved_elements.h"

#include <algorithm>
#include <utility>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/formats/elements/reader.h"
#include "millrace/ops/keep/reported_notes.h"
#include "millrace/ops/place_checks.h"

namespace millrace {
namespace {

/// Every `kNumLanes`-th block.
class BlocksStage final : public Stage {
 public:
  BlocksStage(std::shared_ptr<const ElementsIndex> index, size_t first, Storage& storage, const StageContext& context)
      : index_(std::move(index)),
        pool_(context.pool),
        next_(first),
        reader_(storage, context.pool, index_, context.shard_names, context.memory,
                [&waker = context.waker] { waker.wake(); }) {}

  Poll next(Block& out) override {
    if (next_ >= index_->num_blocks()) return Poll::kEnd;
    switch (reader_.read(next_, out)) {
      case ElementsReader::Step::kPending: return Poll::kPending;
      case ElementsReader::Step::kBlock: break;
      case ElementsReader::Step::kError:
        out = error_block(index_->schema(), pool_, std::make_shared<const Error>(reader_.error()));
        break;
    }
    next_ += SavedElementsStage::kNumLanes;
    return Poll::kBlock;
  }

 private:
  const std::shared_ptr<const ElementsIndex> index_;
  BufferPool& pool_;
  size_t next_;
  ElementsReader reader_;
};

// Whether it stands for a whole block that could not be read.
bool is_lost(const Block& block) { return !block.errors().empty() && !block.errors()[0].is_note(); }

}  // namespace

SavedElementsStage::SavedElementsStage(std::string_view kind, std::shared_ptr<const ElementsIndex> index, int64_t first,
                                       Storage& storage, const StageContext& context)
    : kind_(kind),
      index_(std::move(index)),
      epoch_(context.iteration.epoch),
      pool_(context.pool),
      place_(place_within(kind, first, index_->num_places())),
      block_(index_->block_with(place_)),
      first_block_(block_) {
  StageContext in_lane = context;
  in_lane.state = nullptr;
  for (size_t block = block_; block < std::min(block_ + kNumLanes, index_->num_blocks()); ++block) {
    const OpenStage open = [index = index_, block, &storage](const StageContext& lane) {
      return std::make_unique<BlocksStage>(index, block, storage, lane);
    };
    const size_t lane = block - first_block_;
    lanes_[lane] = context.lanes.open(lane, open, in_lane, {});
  }
}

Poll SavedElementsStage::next(Block& out) {
  while (block_ < index_->num_blocks()) {
    const Poll poll = lanes_[(block_ - first_block_) % kNumLanes]->next(out);
    if (poll != Poll::kBlock) return poll;
    const int64_t first = index_->block(block_).first_element;
    if (!is_lost(out)) {
      const auto begun = static_cast<size_t>(place_ - first);
      if (begun > 0) out = out.slice(begun, out.num_elements() - begun);
    }
    out.epoch = std::max(out.epoch, epoch_);
    out.cursor = make_cursor(kind_, {place_});
    place_ = first + index_->block_places(block_);
    ++block_;
    if (drop_reported_notes(out, epoch_, pool_)) return poll;
  }
  return Poll::kEnd;
}

}  // namespace millrace
