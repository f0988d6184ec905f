#include "millrace/ops/batch/unbatch.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/ops/place_checks.h"

namespace millrace {
namespace {

class UnbatchStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "unbatch";

  UnbatchStage(SchemaPtr schema, std::unique_ptr<Stage> input, const StageContext& context)
      : schema_(std::move(schema)), input_(std::move(input)), context_(context) {
    if (context.state != nullptr) gone_ = numbers_of(*context.state, kKind, 1)[0];
  }

  Poll next(Block& out) override {
    while (true) {
      if (next_row_ < rows_.num_elements()) return deliver(out);
      if (taken_ == block_.num_elements()) {
        taken_ = 0;
        block_ = Block();
        rows_ = Block();
        next_row_ = 0;
        const Poll poll = input_->next(block_);
        if (poll != Poll::kBlock) return poll;
      }
      const ElementError* error = block_.next_error(taken_);
      if (error != nullptr && error->element == taken_) {
        // It stands in the place of one element; of how many rows is not known.
        out = error_block(schema_, context_.pool, error->error, block_.rows_per_element);
        finish_element(out);
        return Poll::kBlock;
      }
      if (take_apart(error == nullptr ? block_.num_elements() : error->element)) continue;
      out = error_block(schema_, context_.pool, unlike_sizes(), block_.rows_per_element);
      finish_element(out);
      return Poll::kBlock;
    }
  }

 private:
  int64_t num_rows(size_t element) const { return block_.column(0).size(element, 0); }
  bool has_like_sizes(size_t element) const {
    return std::all_of(block_.columns().begin() + 1, block_.columns().end(),
                       [&](const Column& column) { return column.size(element, 0) == num_rows(element); });
  }
  // How many rows of the data an element's row stands for.
  int64_t rows_per_row(size_t element) const {
    const int64_t rows = num_rows(element);
    return rows > 0 && block_.rows_per_element % rows == 0 ? block_.rows_per_element / rows : 1;
  }

  // Makes `rows_` of the next elements before `end`, as many as are alike; false when the next one cannot be.
  bool take_apart(size_t end) {
    size_t last = taken_;
    int64_t rows = 0;
    while (last < end && has_like_sizes(last) && rows_per_row(last) == rows_per_row(taken_)) rows += num_rows(last++);
    if (last == taken_) return false;
    first_ = taken_;
    Block::Columns columns;
    columns.reserve(schema_->size());
    for (const Column& column : block_.columns()) {
      columns.push_back(column.ungrouped(taken_, last - taken_, context_.pool));
    }
    rows_ = Block(schema_, std::move(columns), static_cast<size_t>(rows));
    rows_.rows_per_element = rows_per_row(taken_);
    rows_.epoch = block_.epoch;
    if (rows > 0 && block_.origins().size() == static_cast<size_t>(block_.num_rows())) {
      rows_.set_origins(origins_of_rows(last));
    }
    taken_ = last;
    // What had left before the state was taken.
    next_row_ = static_cast<size_t>(place_within(kKind, std::exchange(gone_, 0), num_rows(first_)));
    element_ = first_;
    row_of_element_ = static_cast<int64_t>(next_row_);
    return true;
  }

  // Where the rows of the elements [taken_, last) come from: as many rows as went into an element have their own
  // origins, those made of one record's many values have its, and of others nothing is known. By element, so that how
  // elements are cut into blocks makes no difference.
  Origins origins_of_rows(size_t last) const {
    const Origins& origins = block_.origins();
    const auto per_element = static_cast<size_t>(block_.rows_per_element);
    const auto rows_of = [this](size_t element) {
      return static_cast<size_t>(num_rows(element) * rows_.rows_per_element);
    };
    size_t element = taken_;
    while (element < last && rows_of(element) == per_element) ++element;
    if (element == last) return origins.slice(taken_ * per_element, (last - taken_) * per_element);
    Origins made(context_.pool, origins.names(), static_cast<size_t>(rows_.num_rows()));
    Origin* row = made.mutable_data();
    for (element = taken_; element < last; ++element) {
      const Origin* own = origins.data() + element * per_element;
      if (rows_of(element) == per_element) {
        row = std::copy_n(own, per_element, row);
      } else {
        row = std::fill_n(row, rows_of(element), per_element == 1 ? *own : Origin());
      }
    }
    return made;
  }

  Poll deliver(Block& out) {
    const size_t count = std::min(kBlockElements, rows_.num_elements() - next_row_);
    out = rows_.slice(next_row_, count);
    while (row_of_element_ >= num_rows(element_)) row_of_element_ -= num_rows(element_++);
    out.cursor = make_cursor(kKind, {row_of_element_}, {block_.cursor.advanced_by(static_cast<int64_t>(element_))});
    next_row_ += count;
    row_of_element_ += static_cast<int64_t>(count);
    return Poll::kBlock;
  }

  void finish_element(Block& out) {
    out.epoch = block_.epoch;
    out.cursor = make_cursor(kKind, {0}, {block_.cursor.advanced_by(static_cast<int64_t>(taken_))});
    ++taken_;
  }

  std::shared_ptr<const Error> unlike_sizes() const {
    const Schema& features = *block_.schema();
    size_t other = 1;
    while (block_.column(other).size(taken_, 0) == num_rows(taken_)) ++other;
    Error error{.code = ErrorCode::kWrongShape,
                .message = fmt::format("unbatch: feature '{}' has {} rows, '{}' has {}", features[0].name,
                                       num_rows(taken_), features[other].name, block_.column(other).size(taken_, 0))};
    block_.locate(taken_, error);
    return std::make_shared<const Error>(std::move(error));
  }

  SchemaPtr schema_;
  std::unique_ptr<Stage> input_;
  StageContext context_;
  Block block_;       // of the input
  size_t taken_ = 0;  // elements of `block_` that are in `rows_`, or gone
  Block rows_;        // of the elements [first_, taken_)
  size_t first_ = 0;
  size_t next_row_ = 0;
  size_t element_ = 0;          // that the next row is of
  int64_t row_of_element_ = 0;  // and its number there
  int64_t gone_ = 0;            // rows of the first element, when resumed
};

}  // namespace

SchemaPtr unbatched_schema(std::string_view operator_name, const Schema& input) {
  std::vector<FeatureSpec> features = input.features();
  for (FeatureSpec& feature : features) {
    if (feature.shape.empty()) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("{}: feature '{}' is a scalar; each needs a dimension of rows: {}",
                                       operator_name, feature.name, input.to_string()));
    }
    feature.shape.erase(feature.shape.begin());
    // In an element that is one row, the length is one number.
    if (!feature.shape.empty() && feature.shape[0] == kRagged) feature.shape[0] = kVaries;
  }
  return std::make_shared<const Schema>(std::move(features));
}

std::unique_ptr<Stage> open_unbatch(const SchemaPtr& schema, const OpenStage& input, const StageContext& context) {
  return std::make_unique<UnbatchStage>(schema, open_input(input, context), context);
}

UnbatchOperator::UnbatchOperator(const SchemaPtr& input)
    : StageOperator(unbatched_schema("unbatch", *input)), rows_(-1) {
  for (const FeatureSpec& feature : input->features()) rows_ = std::max(rows_, feature.shape[0]);
}

Cardinality UnbatchOperator::cardinality(std::span<const Cardinality> inputs) const {
  if (!inputs[0].is_known()) return inputs[0];
  int64_t product = 0;
  return rows_ < 0                                                    ? Cardinality::unknown()
         : __builtin_mul_overflow(inputs[0].count(), rows_, &product) ? Cardinality::infinite()
                                                                      : Cardinality::known(product);
}

std::unique_ptr<Stage> UnbatchOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  return open_unbatch(schema(), inputs[0], context);
}

}  // namespace millrace
