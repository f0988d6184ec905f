#include "millrace/ops/batch/batch.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace {
namespace {

constexpr std::string_view kKind = "batch";

}  // namespace

BatchStage::BatchStage(SchemaPtr input_schema, SchemaPtr schema, std::unique_ptr<Stage> input, size_t size,
                       bool drop_remainder, Assemble assemble, const StageContext& context,
                       std::shared_ptr<const MapOperator> later, int64_t row_bytes)
    : schema_(std::move(schema)),
      input_(std::move(input)),
      size_(size),
      drop_remainder_(drop_remainder),
      making_(std::make_shared<Making>()),
      later_(std::move(later)),
      grows_(context.assembles_later),
      context_(context),
      builder_(std::move(input_schema), context.pool) {
  making_->assemble = std::move(assemble);
  if (row_bytes == 0 && later_ != nullptr) row_bytes = fixed_bytes(*later_->schema());
  if (row_bytes == 0) return;
  making_->batch_bytes = static_cast<int64_t>(std::min<size_t>(size_, kBlockBytes)) * row_bytes;
  grows_ = true;
}

Block BatchStage::Making::operator()(const Block& elements, size_t rows, bool measured) {
  Block batches = assemble(elements, rows);
  if (measured) {
    batch_bytes.store(batches.byte_size() / static_cast<int64_t>(batches.num_elements()), std::memory_order_relaxed);
  }
  return batches;
}

// Padding and parsing make rows larger: batches together must not be more than stays in a cache, and than the memory
// budget was asked for. As long as it is not known what one takes, each goes alone.
size_t BatchStage::most_batches() const {
  if (!grows_) return SIZE_MAX / size_;
  const int64_t bytes = making_->batch_bytes.load(std::memory_order_relaxed);
  return bytes == 0 ? 1 : static_cast<size_t>(std::max<int64_t>(kBlockBytes / bytes, 1));
}

bool BatchStage::full() const {
  return complete_rows() > 0 && (complete_rows() >= kBlockElements || builder_.byte_size() >= kBlockBytes ||
                                 complete_rows() / size_ >= most_batches());
}

Poll BatchStage::deliver(const Block& elements, size_t rows, const Cursor& begin, Block& out) {
  if (context_.assembles_later) {
    out = Block(schema_, {}, elements.num_elements() / rows);
    out.assemble = [making = making_, elements, rows] { return (*making)(elements, rows, /*measured=*/true); };
  } else {
    out = (*making_)(elements, rows, /*measured=*/false);
  }
  if (elements.origins().size() == elements.num_elements() * static_cast<size_t>(rows_per_element_)) {
    out.set_origins(elements.origins());
  }
  out.rows_per_element = static_cast<int64_t>(rows) * rows_per_element_;
  out.epoch = epoch_;
  out.cursor = make_cursor(kKind, {}, {begin}).advanced_by(std::exchange(notes_, 0));
  return Poll::kBlock;
}

Poll BatchStage::deliver_error(std::shared_ptr<const Error> error, int64_t rows, const Cursor& begin,
                               Block& out) const {
  out = error_block(schema_, context_.pool, std::move(error), static_cast<int64_t>(size_) * rows);
  out.epoch = epoch_;
  out.cursor = make_cursor(kKind, {}, {begin}).advanced_by(notes_);
  return Poll::kBlock;
}

Poll BatchStage::deliver_complete(Block& out) {
  const Cursor begin = std::exchange(begin_, open_begin_);
  return deliver(builder_.split(complete_rows()), size_, begin, out);
}

std::shared_ptr<const Error> BatchStage::error_of(Block rows) const {
  if (later_ == nullptr) return nullptr;
  const Block seen = later_->apply(std::move(rows), context_.pool);
  return seen.errors().empty() ? nullptr : seen.errors().front().error;
}

std::shared_ptr<const Error> BatchStage::lose_open_rows() {
  if (open_rows() == 0) return nullptr;
  Block rows = builder_.finish();
  rows.rows_per_element = rows_per_element_;
  rows.epoch = epoch_;
  return error_of(std::move(rows));
}

std::shared_ptr<const Error> BatchStage::error_of_open_rows() {
  if (open_rows() == 0 || later_ == nullptr) return nullptr;
  Block rows = builder_.finish();
  rows.rows_per_element = rows_per_element_;
  rows.epoch = epoch_;
  auto error = error_of(rows);
  if (error == nullptr) builder_.append_range(rows, 0, rows.num_elements());
  return error;
}

Poll BatchStage::next(Block& out) {
  while (true) {
    if (full()) return deliver_complete(out);
    if (context_.memory != nullptr && builder_.byte_size() > context_.memory->budget()) refuse_rows();
    if (taken_ == block_.num_elements()) {
      taken_ = 0;
      block_ = Block();
      const Poll poll = ended_ ? Poll::kEnd : input_->next(block_);
      if (poll != Poll::kBlock) {
        ended_ = poll == Poll::kEnd;
        if (complete_rows() > 0) return deliver_complete(out);
        if (ended_ && open_rows() > 0 && !drop_remainder_) {
          const Block gathered = builder_.finish();
          return deliver(gathered, gathered.num_elements(), begin_, out);
        }
        if (ended_ && open_rows() > 0) {
          if (auto error = lose_open_rows()) return deliver_error(std::move(error), rows_per_element_, begin_, out);
        }
        return poll;
      }
    }

    // Up to the next error.
    size_t run = block_.num_elements() - taken_;
    if (const ElementError* error = block_.next_error(taken_)) {
      run = error->element - taken_;
      if (run == 0) {
        if (complete_rows() > 0) return deliver_complete(out);
        const bool is_open = open_rows() > 0;
        const Cursor begin = is_open ? begin_ : block_.cursor.advanced_by(static_cast<int64_t>(taken_));
        const auto earlier = error->is_note() ? error_of_open_rows() : lose_open_rows();
        if (error->is_note() && earlier != nullptr) {
          // Its place is before the note.
          deliver_error(earlier, rows_per_element_, begin, out);
          notes_ = 0;
          return Poll::kBlock;
        }
        deliver_error(earlier != nullptr ? earlier : error->error, block_.rows_per_element, begin, out);
        out.epoch = block_.epoch;
        notes_ = is_open && error->is_note() ? notes_ + 1 : 0;
        ++taken_;
        return Poll::kBlock;
      }
    }

    // The batches of a block have one epoch, that of their first rows.
    const bool like_the_others = block_.epoch == epoch_ && block_.rows_per_element == rows_per_element_;
    if (open_rows() == 0) {
      if (!builder_.empty() && !like_the_others) return deliver_complete(out);
      epoch_ = block_.epoch;
      rows_per_element_ = block_.rows_per_element;
      builder_.mark();
      const size_t most = most_batches();
      const size_t whole = std::min(run / size_, most) * size_;
      if (builder_.empty() && whole > 0) {
        const Block elements = block_.slice(taken_, whole);
        if (2 * whole >= kBlockElements || 2 * elements.byte_size() >= kBlockBytes || whole / size_ == most) {
          taken_ += whole;
          return deliver(elements, size_, elements.cursor, out);
        }
      }
    }
    size_t wanted = size_ - open_rows();
    constexpr size_t kRunOfSmallBatches = 64;  // how far a block may grow before its bytes are looked at
    if (size_ < kRunOfSmallBatches && (open_rows() == 0 || like_the_others)) {
      wanted += kRunOfSmallBatches / size_ * size_;
    }
    run = std::min(run, wanted);
    if (builder_.empty()) begin_ = block_.cursor.advanced_by(static_cast<int64_t>(taken_));
    builder_.append_range(block_, taken_, run);
    taken_ += run;
    if (open_rows() > 0 && open_rows() <= run) {
      open_begin_ = block_.cursor.advanced_by(static_cast<int64_t>(taken_ - open_rows()));
    }
  }
}

void BatchStage::refuse_rows() const {
  throw ErrorException(
      ErrorCode::kMemoryBudget,
      fmt::format("the first {} rows of a batch of {} take {} bytes, the memory budget is {}; make smaller batches",
                  open_rows(), size_, builder_.byte_size(), context_.memory->budget()));
}

namespace {

// The first element of [first, first + rows) whose shape is another than the first one's.
std::shared_ptr<const Error> unlike_shapes(std::string_view operator_name, const Block& elements, size_t c,
                                           size_t first, size_t rows) {
  const FeatureSpec& feature = (*elements.schema())[c];
  const Column& column = elements.column(c);
  const Shape shape = column.shape(first);
  for (size_t row = 1; row < rows; ++row) {
    const Shape other = column.shape(first + row);
    if (other == shape) continue;
    Error error{.code = ErrorCode::kWrongShape,
                .message = fmt::format("{}: feature '{}' has shape {} in the batch's first row and {} in row {}; "
                                       "all rows of a batch need one shape (padded_batch pads them)",
                                       operator_name, feature.name, to_string(shape), to_string(other), row)};
    elements.locate(first + row, error);
    return std::make_shared<const Error>(std::move(error));
  }
  return nullptr;
}

Block stack(const Block& elements, size_t rows, const SchemaPtr& schema, std::string_view operator_name,
            BufferPool& pool) {
  const size_t num_batches = elements.num_elements() / rows;
  Block::Columns columns;
  columns.reserve(elements.columns().size());
  for (size_t c = 0; c < elements.columns().size(); ++c) {
    const FeatureSpec& feature = (*schema)[c];
    const Column& column = elements.column(c);
    columns.push_back(feature.is_ragged() ? column.grouped_ragged(rows, feature.shape, pool)
                                          : column.grouped(rows, pool));
  }
  Block batches(schema, std::move(columns), num_batches);
  for (size_t c = 0; c < elements.columns().size(); ++c) {
    const Column& column = elements.column(c);
    if (column.has_fixed_shape() || (*schema)[c].is_ragged()) continue;
    for (size_t b = 0; b < num_batches; ++b) {
      if (column.same_shapes(b * rows, rows)) continue;
      batches.add_error(b, unlike_shapes(operator_name, elements, c, b * rows, rows));
    }
  }
  return batches;
}

}  // namespace

SchemaPtr batched_schema(const Schema& input, int64_t rows, bool ragged) {
  std::vector<FeatureSpec> features = input.features();
  for (FeatureSpec& feature : features) {
    if (ragged || feature.is_ragged()) std::replace(feature.shape.begin(), feature.shape.end(), kVaries, kRagged);
    feature.shape.insert(feature.shape.begin(), rows);
  }
  return std::make_shared<const Schema>(std::move(features));
}

BatchStage::Assemble stack_elements(SchemaPtr schema, std::string_view operator_name, BufferPool& pool) {
  return [schema = std::move(schema), operator_name, &pool](const Block& elements, size_t rows) {
    return stack(elements, rows, schema, operator_name, pool);
  };
}

size_t checked_batch_size(std::string_view operator_name, int64_t size) {
  if (size < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{}: size must be at least 1, not {}", operator_name, size));
  }
  return static_cast<size_t>(size);
}

int64_t batch_bytes(const Schema& batches, size_t size, bool drop_remainder, Cardinality input) {
  auto rows = static_cast<int64_t>(size);
  if (input.is_known() && input.count() < rows) rows = drop_remainder ? 0 : input.count();
  return rows == 0 ? 0 : least_bytes(batches, rows);
}

Cardinality batch_cardinality(Cardinality input, size_t size, bool drop_remainder) {
  if (!input.is_known()) return input;
  const auto rows = static_cast<int64_t>(size);
  return Cardinality::known(input.count() / rows + (!drop_remainder && input.count() % rows != 0 ? 1 : 0));
}

BatchOperator::BatchOperator(SchemaPtr input, int64_t size, BatchOptions options,
                             std::shared_ptr<const MapOperator> later, int64_t row_bytes)
    : StageOperator(batched_schema(*input, options.drop_remainder ? size : kVaries)),
      input_schema_(std::move(input)),
      size_(checked_batch_size("batch", size)),
      options_(options),
      later_(std::move(later)),
      row_bytes_(row_bytes) {}

std::string BatchOperator::remark() const {
  return later_ == nullptr ? "" : fmt::format("lost rows through {}", later_->name());
}

Cardinality BatchOperator::cardinality(std::span<const Cardinality> inputs) const {
  return batch_cardinality(inputs[0], size_, options_.drop_remainder);
}

std::shared_ptr<const Operator> BatchOperator::of_deferred_rows(const DeferredRows& rows) const {
  return std::make_shared<const BatchOperator>(rows.schema, static_cast<int64_t>(size_), options_, rows.parse,
                                               rows.row_bytes);
}

std::unique_ptr<Stage> BatchOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  return std::make_unique<BatchStage>(input_schema_, schema(), open_input(inputs[0], context), size_,
                                      options_.drop_remainder, stack_elements(schema(), name(), context.pool), context,
                                      later_, row_bytes_);
}

}  // namespace millrace
