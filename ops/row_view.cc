#include "millrace/ops/row_view.h"

#include <fmt/format.h>

namespace millrace {

void RowView::refuse_column(size_t column) const {
  throw ErrorException(ErrorCode::kUserFunction,
                       fmt::format("no column {} here; there are: {}", column, schema().to_string()));
}

void RowView::refuse_type(size_t column, DType dtype) const {
  if (column >= block_.columns().size()) refuse_column(column);
  throw ErrorException(ErrorCode::kUserFunction,
                       fmt::format("feature '{}' is {}, and was read as {}", schema()[column].name,
                                   to_string(schema()[column].dtype), to_string(dtype)));
}

void RowView::refuse_count(size_t column, size_t count) const {
  throw ErrorException(ErrorCode::kUserFunction, fmt::format("feature '{}' has {} values here, and was read as one",
                                                             schema()[column].name, count));
}

RowWriter::RowWriter(SchemaPtr written, BufferPool& pool) : builder_(std::move(written), pool) {}

void RowWriter::check(size_t column, DType dtype, int64_t count, std::span<const int64_t> shape) const {
  const FeatureSpec& feature = (*builder_.schema())[column];
  if (feature.dtype != dtype) {
    throw ErrorException(ErrorCode::kUserFunction,
                         fmt::format("feature '{}' is {}, and was written as {}", feature.name,
                                     to_string(feature.dtype), to_string(dtype)));
  }
  if (builder_.column(column).num_elements() != builder_.num_elements()) {
    throw ErrorException(ErrorCode::kUserFunction, fmt::format("feature '{}' was written twice", feature.name));
  }
  const Shape given(shape.begin(), shape.end());
  bool fits = given.size() == feature.shape.size() && num_values(given) == count;
  for (size_t d = 0; fits && d < given.size(); ++d) {
    fits = given[d] >= 0 && (feature.shape[d] == kVaries || feature.shape[d] == given[d]);
  }
  if (!fits) {
    throw ErrorException(ErrorCode::kWrongShape,
                         fmt::format("feature '{}' has shape {}, and was written with {} values as {}", feature.name,
                                     to_string(feature.shape), count, to_string(given)));
  }
}

void RowWriter::end_element() {
  for (size_t c = 0; c < builder_.schema()->size(); ++c) {
    if (builder_.column(c).num_elements() != builder_.num_elements() + 1) {
      throw ErrorException(ErrorCode::kUserFunction,
                           fmt::format("feature '{}' was not written", (*builder_.schema())[c].name));
    }
  }
  builder_.added_elements(1);
}

bool RowWriter::has_begun() const {
  for (size_t c = 0; c < builder_.schema()->size(); ++c) {
    if (builder_.column(c).num_elements() != builder_.num_elements()) return true;
  }
  return false;
}

void RowWriter::fail_element(std::shared_ptr<const Error> error) {
  for (size_t c = 0; c < builder_.schema()->size(); ++c) builder_.column(c).truncate(builder_.num_elements());
  builder_.append_error(std::move(error));
}

}  // namespace millrace
