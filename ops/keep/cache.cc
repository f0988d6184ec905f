#include "millrace/ops/keep/cache.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/formats/columnar/row_codec.h"
#include "millrace/ops/keep/reported_notes.h"
#include "millrace/ops/row_memory/cached_rows.h"
#include "millrace/ops/row_memory/error_bytes.h"
#include "millrace/ops/row_memory/packed_rows.h"

namespace millrace {
namespace {

constexpr std::string_view kKind = "cache";

/// All elements of an epoch, in blocks that have their cursors.
using CachedBlocks = std::shared_ptr<const std::vector<Block>>;

/// The blocks, when a run has come to their end. They are those of one path: a repeat inside of a nested input counts
/// each start of its input as another one.
class Cached final : public SharedByRuns {
 public:
  // Null when they are to be read; those of another path are given up then.
  CachedBlocks find(uint64_t path) {
    const std::lock_guard lock(mutex_);
    if (path_ != path) blocks_ = nullptr;
    path_ = path;
    return blocks_;
  }
  // Whoever comes second has the same.
  void keep(uint64_t path, CachedBlocks blocks) {
    const std::lock_guard lock(mutex_);
    if (path_ == path) blocks_ = std::move(blocks);
  }

 private:
  std::mutex mutex_;
  uint64_t path_ = 0;
  CachedBlocks blocks_;
};

class MemoryStage final : public Stage {
 public:
  MemoryStage(CachedBlocks blocks, const StageContext& context)
      : blocks_(std::move(blocks)), epoch_(context.iteration.epoch), pool_(context.pool) {}

  Poll next(Block& out) override {
    while (next_ < blocks_->size()) {
      out = (*blocks_)[next_++];
      out.epoch = std::max(out.epoch, epoch_);
      if (drop_reported_notes(out, epoch_, pool_)) return Poll::kBlock;
    }
    return Poll::kEnd;
  }

 private:
  CachedBlocks blocks_;
  int64_t epoch_;
  BufferPool& pool_;
  size_t next_ = 0;
};

/// Elements as rows of bytes, in memory of a cache or, where nothing is kept, in memory of their own. Of raw records
/// the row is the payload, other elements are packed.
class EncodedRows {
 public:
  EncodedRows(const SchemaPtr& elements, const SchemaPtr& rows, BufferPool& pool, bool kept)
      : pool_(pool), kept_(kept ? new CachedRows(pool) : nullptr), builder_(rows, pool) {
    if (RowCodec(elements).is_raw_record()) return;
    codec_.emplace(*elements);
    packed_ = pool.allocate(codec_->most_bytes());
  }

  Block encode(const Block& block) {
    if (!kept_) return encode_apart(block);
    for (size_t element = 0; element < block.num_elements(); ++element) {
      if (is_error(block, element)) {
        builder_.append_error(block.error_at(element));
        continue;
      }
      const std::string_view row = row_of(block, element);
      append(kept_->add(row.size()), row);
    }
    return finish(block, kept_);
  }

  /// Bytes of memory that the kept rows take.
  int64_t kept_bytes() const { return kept_ ? kept_->held_bytes() : 0; }

 private:
  static bool is_error(const Block& block, size_t element) {
    return !block.errors().empty() && block.error_at(element) != nullptr;
  }

  // In memory of their own, which has room for them and no more: whoever keeps rows counts their bytes.
  Block encode_apart(const Block& block) {
    std::vector<size_t> sizes(block.num_elements());
    size_t total = 0;
    for (size_t element = 0; element < sizes.size(); ++element) {
      if (!is_error(block, element)) total += sizes[element] = row_of(block, element).size();
    }
    const Buffer memory = pool_.allocate(total);
    std::byte* place = memory->data();
    for (size_t element = 0; element < sizes.size(); ++element) {
      if (is_error(block, element)) {
        builder_.append_error(block.error_at(element));
        continue;
      }
      append(place, row_of(block, element));
      place += sizes[element];
    }
    return finish(block, memory);
  }

  void append(std::byte* place, std::string_view row) {
    if (!row.empty()) std::memcpy(place, row.data(), row.size());
    builder_.column(0).append_view({reinterpret_cast<const char*>(place), row.size()});
    builder_.added_elements(1);
  }

  Block finish(const Block& like, const Ref<Resource>& memory) {
    builder_.column(0).hold(memory);
    Block rows = builder_.finish();
    rows.set_origins(like.origins());
    rows.rows_per_element = like.rows_per_element;
    rows.epoch = like.epoch;
    rows.cursor = like.cursor;
    return rows;
  }

  // Stays until the next one is asked for.
  std::string_view row_of(const Block& block, size_t element) {
    if (!codec_) return block.column(0).values<std::string_view>(element)[0];
    return {reinterpret_cast<const char*>(packed_->data()), codec_->encode(block, element, packed_->data())};
  }

  BufferPool& pool_;
  std::optional<PackedRowCodec> codec_;  // none for raw records
  Buffer packed_;                        // one row
  Ref<CachedRows> kept_;
  BlockBuilder builder_;
};

/// Passes elements on and keeps them, unless it began in their middle.
class FillStage final : public Stage {
 public:
  FillStage(const SchemaPtr& schema, std::unique_ptr<Stage> input, const StageContext& context)
      : input_(std::move(input)),
        epoch_(context.iteration.epoch),
        pool_(context.pool),
        path_(context.iteration.path),
        cached_(context.state == nullptr ? std::static_pointer_cast<Cached>(context.shared) : nullptr),
        most_bytes_(context.memory_budget() / 4 * 3),
        builder_(schema, context.pool) {}
  // Of elements of this schema that come out as bytes.
  FillStage(const SchemaPtr& elements, const SchemaPtr& schema, std::unique_ptr<Stage> input,
            const StageContext& context)
      : FillStage(schema, std::move(input), context) {
    rows_.emplace(elements, schema, context.pool, cached_ != nullptr);
  }

  Poll next(Block& out) override {
    while (true) {
      const Poll poll = input_->next(out);
      if (poll == Poll::kEnd) end();
      if (poll != Poll::kBlock) return poll;
      if (rows_) out = rows_->encode(out);
      if (cached_ != nullptr) keep(out);
      out.cursor = make_cursor(kKind, {}, {out.cursor});
      out.epoch = std::max(out.epoch, epoch_);
      if (drop_reported_notes(out, epoch_, pool_)) return poll;
    }
  }

 private:
  bool full() const { return builder_.num_elements() >= kBlockElements || builder_.byte_size() >= kBlockBytes; }

  void keep(const Block& block) {
    if (!builder_.empty() && (full() || block.epoch != like_.epoch || block.rows_per_element != like_.rows_per_element))
      keep_block();
    if (builder_.empty()) {
      like_ = block.slice(0, 0);
      like_.cursor = make_cursor(kKind, {}, {block.cursor});
    }
    if (rows_) {
      builder_.append_range(block, 0, block.num_elements());
    } else {
      builder_.append_copied(block, 0, block.num_elements());
    }
    for (const ElementError& entry : block.errors()) error_bytes_ += bytes_of_error(*entry.error);
    check_bytes();
  }

  void check_bytes() const {
    const int64_t bytes = kept_bytes();
    if (bytes <= most_bytes_) return;
    throw ErrorException(Error{
        .code = ErrorCode::kMemoryBudget,
        .message = fmt::format("the first {} elements take {} bytes, three quarters of the memory budget are {}; give "
                               "the pipeline a larger budget, or leave the cache out",
                               num_elements_ + builder_.num_elements(), bytes, most_bytes_)});
  }

  // Memory of the elements; of those in `builder_`, one block at most, what is used of it.
  int64_t kept_bytes() const { return error_bytes_ + bytes_ + (rows_ ? rows_->kept_bytes() : builder_.byte_size()); }

  void keep_block() {
    num_elements_ += builder_.num_elements();
    Block& block = blocks_.emplace_back(builder_.finish());
    for (const Column& column : block.columns()) bytes_ += column.held_bytes();
    block.epoch = like_.epoch;
    block.rows_per_element = like_.rows_per_element;
    block.cursor = std::exchange(like_.cursor, {});
  }

  void end() {
    if (cached_ == nullptr) return;
    if (!builder_.empty()) keep_block();
    check_bytes();
    cached_->keep(path_, std::make_shared<const std::vector<Block>>(std::move(blocks_)));
    cached_ = nullptr;
  }

  std::unique_ptr<Stage> input_;
  int64_t epoch_;
  BufferPool& pool_;
  uint64_t path_;
  std::shared_ptr<Cached> cached_;  // null: nothing is kept
  int64_t most_bytes_;
  std::vector<Block> blocks_;
  size_t num_elements_ = 0;  // of `blocks_`, like the bytes
  int64_t bytes_ = 0;
  int64_t error_bytes_ = 0;          // of all elements
  std::optional<EncodedRows> rows_;  // where they come out as bytes
  BlockBuilder builder_;
  Block like_;  // epoch, rows per element and place of the elements in `builder_`
};

SchemaPtr row_schema() {
  return std::make_shared<const Schema>(std::vector<FeatureSpec>{{.name = "row", .dtype = DType::kBytes, .shape = {}}});
}

}  // namespace

CacheOperator::CacheOperator(SchemaPtr input, bool as_bytes)
    : StageOperator(as_bytes ? row_schema() : input), input_schema_(std::move(input)) {}

std::shared_ptr<SharedByRuns> CacheOperator::share() const { return std::make_shared<Cached>(); }

std::unique_ptr<Stage> CacheOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  if (context.state != nullptr) {
    (void)numbers_of(*context.state, kKind, 0);
  } else if (const auto cached = std::static_pointer_cast<Cached>(context.shared)) {
    if (CachedBlocks blocks = cached->find(context.iteration.path)) {
      return std::make_unique<MemoryStage>(std::move(blocks), context);
    }
  }
  StageContext first_epoch = context;
  first_epoch.iteration.epoch = 0;
  auto input = open_input(inputs[0], first_epoch);
  if (!RowCodec(schema()).is_raw_record()) return std::make_unique<FillStage>(schema(), std::move(input), context);
  return std::make_unique<FillStage>(input_schema_, schema(), std::move(input), context);
}

}  // namespace millrace
