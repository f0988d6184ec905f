#include "ops/tfrecord_source.h"

#include <numeric>

#include <fmt/format.h>

#include "formats/tfrecord/shard_reader.h"
#include "ops/counter_rng.h"

namespace millrace {
namespace {

/// The records of one shard.
class ShardStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "shard_records";

  ShardStage(const std::string& path, const ShardReaderOptions& options, const StageContext& context)
      : pool_(context.pool),
        epoch_(context.iteration.epoch),
        names_(context.shard_names),
        shard_(names_ == nullptr ? 0 : context.shard_names->add(path)),
        reader_(*context.storage, context.pool, path, resumed(options, context),
                [&waker = context.waker] { waker.wake(); }) {}

  Poll next(Block& out) override {
    const RecordPosition begin = reader_.position();
    switch (reader_.next(records_, kBlockElements)) {
      case ShardReader::Step::kPending: return Poll::kPending;
      case ShardReader::Step::kEnd: return Poll::kEnd;
      case ShardReader::Step::kRecords: out = views(); break;
      case ShardReader::Step::kError: out = error_block(record_schema(), pool_, error()); break;
    }
    out.epoch = epoch_;
    const std::optional<Compression> compression = reader_.compression();
    out.cursor = make_cursor(kKind, {static_cast<int64_t>(begin.offset), static_cast<int64_t>(begin.record),
                                     compression ? static_cast<int64_t>(*compression) + 1 : 0});
    return Poll::kBlock;
  }

 private:
  static ShardReaderOptions resumed(ShardReaderOptions options, const StageContext& context) {
    if (context.state == nullptr) return options;
    const std::vector<int64_t>& numbers = numbers_of(*context.state, kKind, 3);
    options.start = {static_cast<uint64_t>(numbers[0]), static_cast<uint64_t>(numbers[1])};
    // Only the beginning of a file shows how it is stored; it need not be read for that again.
    if (numbers[2] > 0) options.compression = static_cast<Compression>(numbers[2] - 1);
    return options;
  }

  std::shared_ptr<const Error> error() const {
    const RecordFault& fault = reader_.fault();
    Error error = fault.error;
    if (fault.end > fault.begin) error.lost_bytes = static_cast<int64_t>(fault.end - fault.begin);
    return std::make_shared<const Error>(std::move(error));
  }

  Block views() {
    Column column = Column::fixed(pool_, DType::kBytes, {}, records_.size());
    std::copy(records_.payloads.begin(), records_.payloads.end(), column.mutable_values<std::string_view>().begin());
    column.hold(records_.buffer);
    Block block(record_schema(), {std::move(column)}, records_.size());
    if (names_ != nullptr) {
      Origins origins(pool_, names_, records_.size());
      for (size_t i = 0; i < records_.size(); ++i) {
        origins.mutable_data()[i] = Origin(shard_, records_.offsets[i], records_.first_record + i);
      }
      block.set_origins(std::move(origins));
    }
    records_.clear();
    return block;
  }

  BufferPool& pool_;
  const int64_t epoch_;
  const std::shared_ptr<const ShardNames> names_;
  const uint32_t shard_;
  RecordBatch records_;
  ShardReader reader_;
};

}  // namespace

std::vector<size_t> permutation(size_t count, uint64_t seed, const Iteration& iteration) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  const CounterRng rng(seed, operator_id("tfrecord"), iteration);
  for (size_t i = count; i > 1; --i) std::swap(order[i - 1], order[uniform_below(rng.bits(i), uint64_t{i})]);
  return order;
}

TfrecordOperator::TfrecordOperator(Shards shards, const TfrecordOptions& options)
    : StageOperator(record_schema()),
      shards_(std::move(shards)),
      options_(options),
      interleave_{
          .cycle_length = options.cycle_length, .block_length = options.block_length, .ordered = options.ordered} {
  interleave_.check();
  interleave_ = interleave_.of_inputs(shards_.size());
}

std::string TfrecordOperator::arguments() const {
  return fmt::format("{} shards, cycle_length={}, block_length={}{}", shards_.size(), options_.cycle_length,
                     options_.block_length,
                     options_.shuffle_shards ? fmt::format(", shuffle_shards, seed={}", options_.seed) : "");
}

Cardinality TfrecordOperator::cardinality(std::span<const Cardinality>) const {
  const std::optional<uint64_t> total = shards_.num_records();
  return total ? Cardinality::known(static_cast<int64_t>(*total)) : Cardinality::unknown();
}

std::unique_ptr<Stage> TfrecordOperator::open(std::vector<OpenStage>, const StageContext& context) const {
  std::vector<OpenStage> inputs;
  std::vector<size_t> order(shards_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (options_.shuffle_shards) order = permutation(shards_.size(), options_.seed, context.iteration);
  inputs.reserve(order.size());
  for (const size_t shard : order) {
    ShardReaderOptions reader;
    reader.compression = options_.compression;
    reader.num_records = shards_.list()[shard].num_records;
    reader.max_record_bytes = options_.max_record_bytes;
    inputs.push_back([path = shards_.list()[shard].path, reader](const StageContext& lane) {
      return std::make_unique<ShardStage>(path, reader, lane);
    });
  }
  return std::make_unique<InterleaveStage>(schema(), std::make_unique<ListedInputs>(std::move(inputs)), interleave_,
                                           context);
}

}  // namespace millrace
