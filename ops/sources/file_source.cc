#include "millrace/ops/sources/file_source.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "millrace/formats/records/record_file.h"
#include "millrace/formats/records/skipped_region.h"
#include "millrace/formats/records/text_splitter.h"
#include "millrace/ops/flow/damage_budget.h"
#include "millrace/ops/row_memory/row_store.h"
#include "millrace/ops/sources/shard_order.h"

namespace millrace {

/// The records of one file.
class FileStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "file_records";

  // All files must have the header of the first.
  FileStage(const FileSourceOperator& source, size_t file, std::unique_ptr<RecordSplitter> splitter,
            RecordFileOptions options, bool limited_by_memory, const StageContext& context)
      : source_(source),
        file_(file),
        schema_(source.schema()),
        path_(source.shards()->path(file)),
        first_path_(source.shards()->path(0)),
        skips_(options.passes_damage),
        num_records_(options.num_records),
        pool_(context.pool),
        epoch_(context.iteration.epoch),
        memory_(limited_by_memory ? context.memory : nullptr),
        names_(context.shard_names),
        shard_(names_ == nullptr ? 0 : context.shard_names->add(path_)),
        row_store_(context.row_store) {
    options.memory = context.memory;
    // A record that the memory budget has no room for is no damage.
    options.passes_long_records = !limited_by_memory;
    if (context.state != nullptr) {
      const std::vector<int64_t>& numbers = numbers_of(*context.state, kKind, 3);
      options.start = {.offset = static_cast<uint64_t>(numbers[0]),
                       .record = static_cast<uint64_t>(numbers[1]),
                       .line = static_cast<uint64_t>(numbers[2])};
    }
    const auto wake = [&waker = context.waker] { waker.wake(); };
    text_ = dynamic_cast<TextSplitter*>(splitter.get());
    std::unique_ptr<RecordSplitter> of_header = text_ == nullptr ? nullptr : text_->of_header();
    if (of_header && path_ != first_path_ && options.start.offset == 0) {
      first_file_.emplace(
          *context.storage, pool_, first_path_, std::move(of_header),
          RecordFileOptions{.compression = options.compression, .chunk_bytes = kLeastChunk, .memory = options.memory},
          wake);
    }
    reader_.emplace(*context.storage, pool_, path_, std::move(splitter), options, wake);
  }

  Poll next(Block& out) override {
    if (first_file_ && !take_first_header()) return Poll::kPending;
    const FilePlace begin = reader_->place();
    switch (reader_->next(records_, kBlockElements)) {
      case RecordFileReader::Step::kPending: return Poll::kPending;
      case RecordFileReader::Step::kEnd: return Poll::kEnd;
      case RecordFileReader::Step::kRecords: out = views(); break;
      case RecordFileReader::Step::kError: out = error_block(schema_, pool_, error(begin)); break;
    }
    out.epoch = epoch_;
    out.cursor = make_cursor(kKind, {static_cast<int64_t>(begin.offset), static_cast<int64_t>(begin.record),
                                     static_cast<int64_t>(begin.line)});
    return Poll::kBlock;
  }

 private:
  // False when it is not there yet. What is wrong with the first file is said where that file is read.
  bool take_first_header() {
    const RecordFileReader::Step step = first_file_->next(records_, 1);
    if (step == RecordFileReader::Step::kPending) return false;
    if (step == RecordFileReader::Step::kRecords) text_->expect_header(records_.payloads[0], first_path_);
    records_.clear();
    first_file_.reset();
    return true;
  }

  // `begin`: of what is lost.
  std::shared_ptr<const Error> error(const FilePlace& begin) const {
    Error error = reader_->error();
    if (memory_ != nullptr && error.code == ErrorCode::kRecordTooLarge) {
      error.code = ErrorCode::kMemoryBudget;
      error.message += fmt::format(", a quarter of the memory budget of {} bytes", memory_->budget());
    }
    if (skips_ && is_damage(error.code)) {
      SkippedRegion region{.shard = path_,
                           .begin = begin.offset,
                           .end = begin.offset,
                           .first_record = begin.record,
                           .epoch = epoch_,
                           .code = error.code,
                           .reason = error.message};
      if (reader_->can_continue()) {
        region.end = reader_->place().offset;
        region.records = reader_->place().record - begin.record;
      } else {
        region.end_is_known = reader_->end_of_file().has_value();
        region.end = reader_->end_of_file().value_or(begin.offset);
        if (num_records_ && begin.record <= *num_records_) region.records = *num_records_ - begin.record;
      }
      error.skipped = std::make_shared<const SkippedRegion>(std::move(region));
    }
    return std::make_shared<const Error>(std::move(error));
  }

  Block views() {
    Column column = Column::fixed(pool_, DType::kBytes, {}, records_.size());
    std::copy(records_.payloads.begin(), records_.payloads.end(), column.mutable_values<std::string_view>().begin());
    hold_rows(column, records_.buffer, row_store_.get());
    Block::Columns columns{std::move(column)};
    if (schema_->size() > 1) {
      Block::Columns more = source_.more_columns(file_, records_, pool_);
      std::move(more.begin(), more.end(), std::back_inserter(columns));
    }
    Block block(schema_, std::move(columns), records_.size());
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

  const FileSourceOperator& source_;
  const size_t file_;
  const SchemaPtr& schema_;
  const std::string path_;
  const std::string first_path_;
  const bool skips_;
  const std::optional<uint64_t> num_records_;
  BufferPool& pool_;
  const int64_t epoch_;
  const MemoryGate* const memory_;  // where it is what bounds a record
  const std::shared_ptr<const ShardNames> names_;
  const uint32_t shard_;
  const std::shared_ptr<RowStore> row_store_;  // or null
  CutRecords records_;
  TextSplitter* text_ = nullptr;                // of reader_; null where its files are no text
  std::optional<RecordFileReader> first_file_;  // while its header is not known
  std::optional<RecordFileReader> reader_;
};

Block::Columns FileSourceOperator::more_columns(size_t /*shard*/, const CutRecords& records, BufferPool& pool) const {
  Column lines = Column::fixed(pool, DType::kInt64, {}, records.size());
  std::copy(records.lines.begin(), records.lines.end(), lines.mutable_values<int64_t>().begin());
  return {std::move(lines)};
}

FileSourceOperator::FileSourceOperator(std::string_view operator_name, SchemaPtr schema, Shards shards,
                                       const FileReadOptions& options)
    : StageOperator(std::move(schema)),
      shards_(std::move(shards)),
      options_(options),
      interleave_{
          .cycle_length = options.cycle_length, .block_length = options.block_length, .ordered = options.ordered} {
  interleave_.check(operator_name);
  options_.damage.check();
  interleave_ = interleave_.of_inputs(shards_.size());
}

Cardinality FileSourceOperator::cardinality(std::span<const Cardinality>) const {
  // Damage can make it any smaller number.
  if (skips_damage()) return Cardinality::unknown();
  const std::optional<uint64_t> total = shards_.num_records();
  return total ? Cardinality::known(static_cast<int64_t>(*total)) : Cardinality::unknown();
}

int64_t FileSourceOperator::memory_needed(std::span<const Cardinality>) const {
  return static_cast<int64_t>(num_lanes() * kLeastChunk);
}

std::unique_ptr<Stage> FileSourceOperator::open(std::vector<OpenStage>, const StageContext& context) const {
  const OpenStage records = [this](const StageContext& inner) { return open_records(inner); };
  if (!skips_damage()) return open_below_damage_budget(records, context);
  return std::make_unique<DamageBudgetStage>(open_below_damage_budget(records, context), options_.damage, context);
}

std::unique_ptr<Stage> FileSourceOperator::open_records(const StageContext& context) const {
  RecordFileOptions options{.compression = options_.compression, .passes_damage = skips_damage()};
  uint64_t max_record_bytes = options_.max_record_bytes;
  bool limited_by_memory = false;
  if (context.memory != nullptr) {
    limited_by_memory = largest_record(*context.memory) < max_record_bytes;
    max_record_bytes = std::min(max_record_bytes, largest_record(*context.memory));
    const LaneReads reads = lane_reads(*context.memory, num_lanes(), {options.chunk_bytes, options.read_ahead});
    options.chunk_bytes = reads.chunk_bytes;
    options.most_bytes_ahead = reads.most_bytes;
    options.num_files = std::min(num_lanes(), shards_.size());
  }
  std::vector<OpenStage> inputs;
  inputs.reserve(shards_.size());
  for (const size_t shard : shard_order(shards_.size(), options_.shuffle_shards, options_.seed, context.iteration)) {
    options.num_records = shards_.list()[shard].num_records;
    inputs.push_back([this, shard, options, max_record_bytes, limited_by_memory](const StageContext& lane) {
      return std::make_unique<FileStage>(*this, shard, splitter(max_record_bytes), options, limited_by_memory, lane);
    });
  }
  return std::make_unique<InterleaveStage>(schema(), std::make_unique<ListedInputs>(std::move(inputs)), interleave_,
                                           context);
}

}  // namespace millrace
