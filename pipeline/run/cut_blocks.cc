#include "millrace/pipeline/run/cut_blocks.h"

#include <algorithm>
#include <utility>

namespace millrace {
namespace {

constexpr int64_t kMostBytes = int64_t{16} << 20;

int64_t bytes_after(const MapOperator& map, int64_t rows) {
  return std::max(least_bytes(*map.schema(), rows), map.traits().guessed_bytes * rows);
}

}  // namespace

OpenStage CutBlocks::before(std::vector<std::shared_ptr<const MapOperator>> maps, OpenStage open) {
  // Elements that are batches have any number of rows.
  const bool may_grow = std::ranges::any_of(
      maps, [](const auto& map) { return bytes_after(*map, 1) > kBlockBytes / static_cast<int64_t>(kBlockElements); });
  if (!may_grow) return open;
  return [maps = std::move(maps), open = std::move(open)](const StageContext& context) {
    return std::make_unique<CutBlocks>(open(context), maps, context);
  };
}

CutBlocks::CutBlocks(std::unique_ptr<Stage> input, std::vector<std::shared_ptr<const MapOperator>> maps,
                     const StageContext& context)
    : input_(std::move(input)),
      maps_(std::move(maps)),
      most_bytes_(context.memory == nullptr ? kMostBytes
                                            : std::clamp(context.memory->budget() / 32, kBlockBytes, kMostBytes)) {}

Poll CutBlocks::next(Block& out) {
  if (taken_ == block_.num_elements()) {
    const Poll poll = input_->next(out);
    // What is assembled later was cut by whoever makes it.
    if (poll != Poll::kBlock || out.assemble || out.num_elements() <= most_elements(out)) return poll;
    block_ = std::exchange(out, Block());
    taken_ = 0;
  }
  const size_t count = std::min(block_.num_elements() - taken_, most_elements(block_));
  out = block_.slice(taken_, count);
  taken_ += count;
  if (taken_ == block_.num_elements()) {
    block_ = Block();
    taken_ = 0;
  }
  return Poll::kBlock;
}

size_t CutBlocks::most_elements(const Block& block) const {
  int64_t bytes = 1;
  for (const auto& map : maps_) bytes = std::max(bytes, bytes_after(*map, block.rows_per_element));
  return static_cast<size_t>(std::max<int64_t>(most_bytes_ / bytes, 1));
}

}  // namespace millrace
