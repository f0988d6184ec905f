#include "millrace/ops/sources/tfrecord.h"

#include <fmt/format.h>

#include "millrace/formats/tfrecord/index/index_loader.h"
#include "millrace/formats/tfrecord/shard_reader.h"
#include "millrace/ops/flow/damage_budget.h"
#include "millrace/ops/row_memory/row_store.h"
#include "millrace/ops/sources/shard_order.h"

namespace millrace {
namespace {

/// The records of one shard. Its index is read only where it is needed: to go on in the middle of a compressed shard;
/// where damage is left out, for compressed shards, in which damaged bytes can look like good records of another place,
/// and for others when damage may cost more than one record.
class ShardRecordsStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "shard_records";

  ShardRecordsStage(const std::string& path, const ShardReaderOptions& options, bool skips, const StageContext& context)
      : storage_(*context.storage),
        pool_(context.pool),
        waker_(context.waker),
        path_(path),
        options_(options),
        skips_(skips),
        epoch_(context.iteration.epoch),
        names_(context.shard_names),
        memory_(context.memory),
        limited_by_memory_(memory_ != nullptr && options.max_record_bytes == largest_record(*memory_)),
        shard_(names_ == nullptr ? 0 : context.shard_names->add(path)),
        row_store_(context.row_store) {
    options_.memory = context.memory;
    if (context.state != nullptr) resume(*context.state);
    const bool compressed = options_.compression.value_or(Compression::kNone) != Compression::kNone;
    if (compressed && (skips_ || options_.start.offset > 0)) {
      load_index();
    } else {
      open();
    }
  }

  Poll next(Block& out) override {
    while (true) {
      if (loader_ && !take_index()) return Poll::kPending;
      if (unchecked_) return deliver(views(), *std::exchange(unchecked_, std::nullopt), out);
      if (held_) {
        const Held held = *std::exchange(held_, std::nullopt);
        return deliver(error_block(record_schema(), pool_, note(held.fault, held.begin)), held.begin, out);
      }
      const RecordPosition begin = reader_->position();
      switch (reader_->next(records_, kBlockElements)) {
        case ShardReader::Step::kPending: return Poll::kPending;
        case ShardReader::Step::kEnd: return Poll::kEnd;
        case ShardReader::Step::kRecords:
          if (!skips_ || index_was_read_ || reader_->compression() == Compression::kNone) {
            return deliver(views(), begin, out);
          }
          unchecked_ = begin;
          load_index();
          continue;
        case ShardReader::Step::kError: break;
      }
      const RecordFault& fault = reader_->fault();
      if (fault.error.code == ErrorCode::kIndex) {
        index_problem_ = fault.error.message;  // nothing is lost to it
      } else if (!skips_ || !is_damage(fault.error.code) || is_too_large_for_memory(fault)) {
        return deliver(error_block(record_schema(), pool_, error(fault)), begin, out);
      } else if (index_was_read_ || !index_may_help(fault)) {
        Block noted = error_block(record_schema(), pool_, note(fault, begin));
        const Poll poll = deliver(std::move(noted), begin, out);
        if (fault.can_continue) suspect_from(fault.begin);
        return poll;
      } else {
        held_ = {fault, begin};
        load_index();
      }
    }
  }

 private:
  struct Held {
    RecordFault fault;
    RecordPosition begin;  // of the record that cannot be read
  };

  void resume(const StageState& state) {
    const std::vector<int64_t>& numbers = numbers_of(state, kKind, 3);
    options_.start = {static_cast<uint64_t>(numbers[0]), static_cast<uint64_t>(numbers[1])};
    // Only the beginning of a file shows how it is stored; it need not be read for that again.
    if (numbers[2] > static_cast<int64_t>(Compression::kZstd) + 1) {
      throw ErrorException(ErrorCode::kState, fmt::format("the state of {} has numbers that cannot be", kKind));
    }
    if (numbers[2] > 0) options_.compression = static_cast<Compression>(numbers[2] - 1);
    options_.starts_after_damage = numbers.size() > 3 && numbers[3] != 0;
  }

  // Damage of a compressed shard is rarely of one record alone, and only an index tells where it ends.
  bool index_may_help(const RecordFault& fault) const {
    return !fault.can_continue || reader_->compression() != Compression::kNone;
  }

  void open() {
    reader_.emplace(storage_, pool_, path_, options_, [&waker = waker_] { waker.wake(); });
  }

  void load_index() {
    index_was_read_ = true;
    loader_.emplace(storage_, path_, [&waker = waker_] { waker.wake(); });
  }

  // False while the index is not there yet.
  bool take_index() {
    if (!loader_->done()) return false;
    options_.index = loader_->index();
    if (loader_->problem()) index_problem_ = loader_->problem()->message;
    loader_.reset();
    if (options_.starts_after_damage) suspect_from(options_.start.offset);
    if ((held_ || unchecked_) && options_.index) {
      // From the record on that cannot be read: what is wrong is found again, and where reading goes on after it.
      options_.compression = options_.index->compression();
      options_.start = held_ ? held_->begin : *unchecked_;
      options_.starts_after_damage = false;
      held_.reset();
      unchecked_.reset();
      records_.clear();
      open();
    } else if (!reader_) {
      open();
    }
    return true;
  }

  Poll deliver(Block block, const RecordPosition& begin, Block& out) const {
    out = std::move(block);
    out.epoch = epoch_;
    const std::optional<Compression> compression = reader_->compression();
    out.cursor = make_cursor(
        kKind, {static_cast<int64_t>(begin.offset), static_cast<int64_t>(begin.record),
                compression ? static_cast<int64_t>(*compression) + 1 : 0, begin.record < suspect_until_ ? 1 : 0});
    return Poll::kBlock;
  }

  // After damage of a compressed shard at `offset` the reader enters it again at the next seek point.
  void suspect_from(uint64_t offset) {
    const SeekPoint* const point = options_.index == nullptr ? nullptr : options_.index->point_after(offset);
    if (point != nullptr) suspect_until_ = std::max(suspect_until_, options_.index->first_from(point->offset).record);
  }

  // A record that the memory budget has no room for is no damage.
  bool is_too_large_for_memory(const RecordFault& fault) const {
    return limited_by_memory_ && fault.error.code == ErrorCode::kRecordTooLarge;
  }

  std::shared_ptr<const Error> error(const RecordFault& fault) const {
    Error error = fault.error;
    if (is_too_large_for_memory(fault)) {
      error.code = ErrorCode::kMemoryBudget;
      error.message += fmt::format(", a quarter of the memory budget of {} bytes", memory_->budget());
    }
    if (fault.end > fault.begin) error.lost_bytes = static_cast<int64_t>(fault.end - fault.begin);
    return std::make_shared<const Error>(std::move(error));
  }

  // What is left out because of a fault, after `begin`.
  std::shared_ptr<const Error> note(const RecordFault& fault, const RecordPosition& begin) const {
    Error error = fault.error;
    SkippedRegion region{.shard = path_,
                         .begin = fault.begin,
                         .end = fault.end,
                         .end_is_known = fault.end_is_known,
                         .first_record = begin.record,
                         .records = fault.num_records_lost,
                         .epoch = epoch_,
                         .code = error.code,
                         .reason = error.message};
    if (fault.can_continue) {
      region.records = reader_->position().record - begin.record;
    } else if (!region.records && options_.num_records && begin.record <= *options_.num_records) {
      region.records = *options_.num_records - begin.record;
    }
    if (!fault.can_continue && !index_problem_.empty()) {
      region.reason += fmt::format("; the shard's index is of no use: {}", index_problem_);
    }
    error.skipped = std::make_shared<const SkippedRegion>(std::move(region));
    return std::make_shared<const Error>(std::move(error));
  }

  Block views() {
    Column column = Column::fixed(pool_, DType::kBytes, {}, records_.size());
    std::copy(records_.payloads.begin(), records_.payloads.end(), column.mutable_values<std::string_view>().begin());
    hold_rows(column, records_.buffer, row_store_.get());
    Block block(record_schema(), {std::move(column)}, records_.size());
    if (names_ != nullptr) {
      Origins origins(pool_, names_, records_.size());
      for (size_t i = 0; i < records_.size(); ++i) {
        origins.mutable_data()[i] = Origin(shard_, records_.offsets[i], records_.first_record + i);
      }
      block.set_origins(std::move(origins));
    }
    records_.clear();
    if (row_store_) reader_->leave_buffer();
    return block;
  }

  Storage& storage_;
  BufferPool& pool_;
  Waker& waker_;
  const std::string path_;
  ShardReaderOptions options_;
  const bool skips_;
  const int64_t epoch_;
  const std::shared_ptr<const ShardNames> names_;
  const MemoryGate* const memory_;
  const bool limited_by_memory_;
  const uint32_t shard_;
  const std::shared_ptr<RowStore> row_store_;  // or null
  RecordBatch records_;
  std::optional<ShardReader> reader_;
  std::optional<IndexLoader> loader_;  // while the index is read
  bool index_was_read_ = false;
  std::string index_problem_;
  uint64_t suspect_until_ = 0;               // record up to which damage may make itself felt
  std::optional<RecordPosition> unchecked_;  // of `records_`, while it is not known whether there is an index
  std::optional<Held> held_;                 // while it is not known whether the index helps
};

void check_reads(const TfrecordOptions& options) {
  constexpr size_t kLargestChunk = size_t{1} << 30;
  constexpr size_t kMostAhead = 1024;
  if (options.chunk_bytes < kLeastChunk || options.chunk_bytes > kLargestChunk) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("tfrecord: chunk_bytes must be between {} and {}, not {}", kLeastChunk,
                                     kLargestChunk, options.chunk_bytes));
  }
  if (options.read_ahead > kMostAhead) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("tfrecord: read_ahead must be at most {}, not {}",
                                                                  kMostAhead, options.read_ahead));
  }
}

}  // namespace

TfrecordOperator::TfrecordOperator(Shards shards, const TfrecordOptions& options)
    : StageOperator(record_schema()),
      shards_(std::move(shards)),
      options_(options),
      interleave_{
          .cycle_length = options.cycle_length, .block_length = options.block_length, .ordered = options.ordered} {
  interleave_.check(name());
  options_.damage.check();
  check_reads(options_);
  interleave_ = interleave_.of_inputs(shards_.size());
}

Cardinality TfrecordOperator::cardinality(std::span<const Cardinality>) const {
  // Damage can make it any smaller number.
  if (options_.damage.action == DamagePolicy::kSkip) return Cardinality::unknown();
  const std::optional<uint64_t> total = shards_.num_records();
  return total ? Cardinality::known(static_cast<int64_t>(*total)) : Cardinality::unknown();
}

int64_t TfrecordOperator::memory_needed(std::span<const Cardinality>) const {
  return static_cast<int64_t>(num_lanes() * kLeastChunk);
}

std::unique_ptr<Stage> TfrecordOperator::open(std::vector<OpenStage>, const StageContext& context) const {
  const OpenStage records = [this](const StageContext& inner) { return open_records(inner); };
  if (options_.damage.action == DamagePolicy::kFail) return open_below_damage_budget(records, context);
  return std::make_unique<DamageBudgetStage>(open_below_damage_budget(records, context), options_.damage, context);
}

std::unique_ptr<Stage> TfrecordOperator::open_records(const StageContext& context) const {
  const bool skips = options_.damage.action == DamagePolicy::kSkip;
  std::vector<OpenStage> inputs;
  const std::vector<size_t> order =
      shard_order(shards_.size(), options_.shuffle_shards, options_.seed, context.iteration);
  inputs.reserve(order.size());
  for (const size_t shard : order) {
    ShardReaderOptions reader;
    reader.compression = options_.compression;
    reader.num_records = shards_.list()[shard].num_records;
    reader.max_record_bytes = options_.max_record_bytes;
    LaneReads reads = {options_.chunk_bytes, options_.read_ahead};
    if (context.memory != nullptr) {
      reader.max_record_bytes = std::min(reader.max_record_bytes, largest_record(*context.memory));
      reads = lane_reads(*context.memory, num_lanes(), reads);
    }
    reader.chunk_bytes = reads.chunk_bytes;
    reader.read_ahead = reads.read_ahead;
    reader.most_bytes_ahead = reads.most_bytes;
    reader.num_files = std::min(num_lanes(), shards_.size());
    inputs.push_back([path = shards_.list()[shard].path, reader, skips](const StageContext& lane) {
      return std::make_unique<ShardRecordsStage>(path, reader, skips, lane);
    });
  }
  return std::make_unique<InterleaveStage>(schema(), std::make_unique<ListedInputs>(std::move(inputs)), interleave_,
                                           context);
}

}  // namespace millrace
