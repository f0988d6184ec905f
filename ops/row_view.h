#pragma once

#include <span>
#include <string_view>

#include "millrace/formats/columnar/block_builder.h"

namespace millrace {

/// One element of a block, read by a user's function. Features are named, or given by their column, which is faster.
/// Asking for another type than the feature has, or for a feature that is not there, throws and so becomes the
/// element's error.
class RowView {
 public:
  RowView(const Block& block, size_t element) : block_(block), element_(element) {}

  /// The values of a feature, row-major.
  template <typename T>
  std::span<const T> values(size_t column) const {
    check(column, DTypeOf<T>::value);
    return block_.column(column).values<T>(element_);
  }
  template <typename T>
  std::span<const T> values(std::string_view feature) const {
    return values<T>(column(feature));
  }
  /// The value of a feature that has one.
  template <typename T>
  T value(size_t column) const {
    const std::span<const T> all = values<T>(column);
    if (all.size() != 1) refuse_count(column, all.size());
    return all[0];
  }
  template <typename T>
  T value(std::string_view feature) const {
    return value<T>(column(feature));
  }
  Shape shape(size_t column) const {
    if (column >= block_.columns().size()) refuse_column(column);
    return block_.column(column).shape(element_);
  }
  Shape shape(std::string_view feature) const { return shape(column(feature)); }

  /// Where the rows of a ragged feature begin: see Column::row_splits.
  std::span<const int64_t> row_splits(std::string_view feature, size_t dimension = 1) const {
    return block_.column(feature).row_splits(element_, dimension);
  }

  size_t column(std::string_view feature) const { return static_cast<size_t>(block_.schema()->column(feature)); }
  const Schema& schema() const { return *block_.schema(); }
  /// The number of the element's first row in the input, from 0 in each iteration.
  int64_t ordinal() const { return block_.first_row + block_.rows_per_element * static_cast<int64_t>(element_); }
  int64_t epoch() const { return block_.epoch; }

 private:
  void check(size_t column, DType dtype) const {
    if (column >= block_.columns().size() || block_.column(column).dtype() != dtype) refuse_type(column, dtype);
  }
  [[noreturn]] void refuse_column(size_t column) const;
  [[noreturn]] void refuse_type(size_t column, DType dtype) const;
  [[noreturn]] void refuse_count(size_t column, size_t count) const;

  const Block& block_;
  size_t element_;
};

/// Where a user's function puts the features that it writes, one element at a time.
class RowWriter {
 public:
  /// `written`: the features that each element is given.
  RowWriter(SchemaPtr written, BufferPool& pool);

  /// Sets a scalar.
  template <typename T>
  void set(std::string_view feature, const T& value) {
    using Value = std::conditional_t<std::is_convertible_v<T, std::string_view>, std::string_view, T>;
    const Value stored(value);
    put<Value>(column(feature), {&stored, 1}, {});
  }
  /// Sets a vector.
  template <typename T>
  void set_values(std::string_view feature, std::span<const T> values) {
    const auto length = static_cast<int64_t>(values.size());
    put<T>(column(feature), values, {&length, 1});
  }
  /// Sets a tensor of any shape, row-major.
  template <typename T>
  void set_values(std::string_view feature, std::span<const T> values, std::span<const int64_t> shape) {
    put<T>(column(feature), values, shape);
  }
  /// Room for a tensor of any shape, to be filled before the function returns. Not for `bytes`.
  template <typename T>
  std::span<T> make(std::string_view feature, std::span<const int64_t> shape) {
    static_assert(!std::is_same_v<T, std::string_view>);
    const size_t index = column(feature);
    check(index, DTypeOf<T>::value, num_values(Shape(shape.begin(), shape.end())), shape);
    return builder_.column(index).append_space<T>(shape);
  }

  /// Takes the element that the function has written; throws when a feature is missing.
  void end_element();
  /// Takes back what was written of this element, and puts an error in its place.
  void fail_element(std::shared_ptr<const Error> error);
  /// Whether a feature of the element at hand has been written.
  [[nodiscard]] bool has_begun() const;
  /// Bytes of the elements so far.
  int64_t byte_size() const { return builder_.byte_size(); }
  /// All elements so far, one column for each written feature.
  [[nodiscard]] Block finish() { return builder_.finish(); }

 private:
  template <typename T>
  void put(size_t column, std::span<const T> values, std::span<const int64_t> shape) {
    check(column, DTypeOf<T>::value, static_cast<int64_t>(values.size()), shape);
    ColumnBuilder& builder = builder_.column(column);
    if constexpr (std::is_same_v<T, std::string_view>) {
      std::span<std::string_view> space = builder.append_space<std::string_view>(shape);
      for (size_t i = 0; i < values.size(); ++i) space[i] = builder.store(values[i]);
    } else {
      builder.append(values, shape);
    }
  }
  size_t column(std::string_view feature) const { return static_cast<size_t>(builder_.schema()->column(feature)); }
  // The feature must have this type, not be set yet, and allow the shape.
  void check(size_t column, DType dtype, int64_t count, std::span<const int64_t> shape) const;

  BlockBuilder builder_;
};

}  // namespace millrace
