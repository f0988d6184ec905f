#include "millrace/ops/parse/parse_tensors.h"

#include <cassert>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "millrace/ops/parse/decoded_column.h"
#include "millrace/ops/parse/parsed_records.h"
#include "millrace/ops/parse/views_by_row.h"

namespace millrace {
namespace {

bool takes(const ParseTensorOperator& tensor) {
  const FeatureSpec& feature = (*tensor.schema())[tensor.column()];
  return feature.has_fixed_shape() && feature.dtype != DType::kBytes;
}

// The schema with the tensors in it, one dimension more where they come in batches.
SchemaPtr with_tensors(const Schema& input, const ParseTensorsOperator::Tensors& tensors) {
  std::vector<FeatureSpec> features = input.features();
  for (const auto& tensor : tensors) {
    FeatureSpec& feature = features[tensor->column()];
    assert(takes(*tensor) && feature.dtype == DType::kBytes && feature.shape.size() <= 1);
    Shape shape = feature.shape;
    feature = (*tensor->schema())[tensor->column()];
    feature.shape.insert(feature.shape.begin(), shape.begin(), shape.end());
  }
  return std::make_shared<const Schema>(std::move(features));
}

/// The tensors of one feature, row after row, being filled.
class TensorWriter {
 public:
  // `rows` for each element of `messages`.
  TensorWriter(const ParseTensorOperator& tensor, Column messages, size_t rows, BufferPool& pool)
      : tensor_(tensor),
        pool_(pool),
        messages_(std::move(messages), rows),
        feature_((*tensor.schema())[tensor.column()]),
        row_bytes_(static_cast<size_t>(num_values(feature_.shape)) * size_of(feature_.dtype)),
        column_(Column::fixed(pool, feature_.dtype, feature_.shape, messages_.size())),
        begin_(messages_.size() == 0 ? nullptr : column_.mutable_data(0)) {}

  std::optional<Error> write(size_t row) {
    try {
      tensor_.read(messages_[row], pool_).copy_to(feature_.dtype, begin_ + row * row_bytes_);
    } catch (const ErrorException& failed) {
      return decoding_error(feature_, tensor_.name(), failed);
    }
    return std::nullopt;
  }
  // Rows up to this one are written.
  void done(size_t row) { messages_.done(row); }
  // Nothing of meaning.
  void clear(size_t first, size_t rows) {
    if (rows * row_bytes_ > 0) std::memset(begin_ + first * row_bytes_, 0, rows * row_bytes_);
  }
  Column& column() { return column_; }

 private:
  const ParseTensorOperator& tensor_;
  BufferPool& pool_;
  ViewsByRow messages_;
  const FeatureSpec& feature_;
  size_t row_bytes_;
  Column column_;
  std::byte* begin_;
};

}  // namespace

ParseTensorsOperator::ParseTensorsOperator(const SchemaPtr& input, Tensors tensors)
    : MapOperator(with_tensors(*input, tensors)),
      tensors_(std::move(tensors)),
      batched_(!(*input)[tensors_.front()->column()].shape.empty()) {}

std::shared_ptr<const MapOperator> ParseTensorsOperator::of(std::span<const std::shared_ptr<const MapOperator>> run,
                                                            const SchemaPtr& input) {
  Tensors tensors;
  for (const auto& op : run) {
    if (const auto some = std::dynamic_pointer_cast<const ParseTensorsOperator>(op)) {
      tensors.insert(tensors.end(), some->tensors_.begin(), some->tensors_.end());
      continue;
    }
    const auto one = std::dynamic_pointer_cast<const ParseTensorOperator>(op);
    if (one == nullptr || !takes(*one)) return nullptr;
    tensors.push_back(one);
  }
  return std::make_shared<const ParseTensorsOperator>(input, std::move(tensors));
}

Block ParseTensorsOperator::apply(Block block, BufferPool& pool) const {
  const size_t rows = batched_ ? rows_in_each(block, block.column(tensors_.front()->column()), name()) : 1;
  std::vector<TensorWriter> writers;
  writers.reserve(tensors_.size());
  Block::Columns columns = block.columns();
  block.mutable_columns().clear();
  for (const auto& tensor : tensors_) {
    writers.emplace_back(*tensor, std::exchange(columns[tensor->column()], {}), rows, pool);
  }
  std::vector<ElementError> errors;
  for (size_t element = 0; element < block.num_elements(); ++element) {
    bool failed = !block.errors().empty() && block.error_at(element) != nullptr;
    for (size_t row = 0; row < rows && !failed; ++row) {
      for (size_t t = 0; t < writers.size() && !failed; ++t) {
        std::optional<Error> error = writers[t].write(element * rows + row);
        if (!error) continue;
        block.locate(element, row, *error);
        errors.push_back({element, std::make_shared<const Error>(*std::move(error))});
        failed = true;
      }
      for (TensorWriter& writer : writers) writer.done(element * rows + row);
    }
    for (size_t t = 0; t < writers.size() && failed; ++t) writers[t].clear(element * rows, rows);
  }
  for (size_t t = 0; t < writers.size(); ++t) {
    Column& made = writers[t].column();
    columns[tensors_[t]->column()] = batched_ ? std::move(made).grouped(rows) : std::move(made);
  }
  Block parsed = block.with_columns(schema(), std::move(columns));
  for (ElementError& entry : errors) parsed.add_error(entry.element, std::move(entry.error));
  return parsed;
}

}  // namespace millrace
