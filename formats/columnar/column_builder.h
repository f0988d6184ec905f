#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "millrace/formats/columnar/buffer.h"
#include "millrace/formats/columnar/column.h"
#include "millrace/formats/columnar/counted_allocator.h"
#include "millrace/formats/columnar/keep_alive_list.h"
#include "millrace/formats/columnar/schema.h"

namespace millrace {

/// Collects elements of one feature whose shapes may vary, then makes a column of them and begins anew. Where the
/// feature's shape is fixed, every element must have it. Values are copied once; a run of neighbours is one copy.
class ColumnBuilder {
 public:
  ColumnBuilder(BufferPool& pool, const FeatureSpec& feature);

  /// Appends one element: `values` in row-major order, `shape` its sizes, as `Column::sizes` has them when the feature
  /// is ragged. `bytes` values are views: `hold` what they
  /// point into, or `store` them.
  template <typename T>
  void append(std::span<const T> values, std::span<const int64_t> shape) {
    assert(DTypeOf<T>::value == dtype_);
    append_untyped(reinterpret_cast<const std::byte*>(values.data()), static_cast<int64_t>(values.size()), shape);
  }
  /// Appends one element of this shape and returns its values to be filled. `bytes` values start empty.
  template <typename T>
  std::span<T> append_space(std::span<const int64_t> shape) {
    assert(DTypeOf<T>::value == dtype_);
    assert(!ragged_);
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    append_untyped(nullptr, count, shape);
    if (count == 0) return {};
    return {reinterpret_cast<T*>(values_->data() + used_) - count, static_cast<size_t>(count)};
  }
  /// The same untyped, for `count` values of an element that may be ragged. Null when there are none.
  std::byte* append_space(int64_t count, std::span<const int64_t> sizes) {
    append_untyped(nullptr, count, sizes);
    return count == 0 ? nullptr : values_->data() + used_ - static_cast<size_t>(count) * size_of(dtype_);
  }
  /// The same for `count` values of the builder's type at any address. With null, space for them is left.
  void append_untyped(const std::byte* values, int64_t count, std::span<const int64_t> shape);
  /// Appends element `element` of `column`, which has the same dtype and rank; views keep what they point into.
  void append(const Column& column, size_t element) { append(column, element, 1); }
  /// Appends elements [first, first + count) of `column`.
  void append(const Column& column, size_t first, size_t count);
  /// The same with `bytes` values stored: nothing of `column` is kept alive.
  void append_copied(const Column& column, size_t first, size_t count);
  /// Appends one scalar `bytes` value, a view.
  void append_view(std::string_view value) {
    assert(dtype_ == DType::kBytes && fixed_ && stride_ == 1);
    reserve(size_of(DType::kBytes));
    *reinterpret_cast<std::string_view*>(values_->data() + used_) = value;
    used_ += size_of(DType::kBytes);
    payload_ += static_cast<int64_t>(value.size());
    ++num_elements_;
  }
  /// Appends an element that stands in the place of an error: no values, or zeros where the shape is fixed.
  void append_nothing();
  /// Drops all elements but the first `num_elements`.
  void truncate(size_t num_elements);
  /// So many elements like those of `column` will be appended: memory for their values is taken at once.
  void expect(const Column& column, size_t num_elements);

  void hold(const Ref<Resource>& resource);
  /// Copies bytes to where they live as long as the column does.
  [[nodiscard]] std::string_view store(std::string_view bytes);

  /// Where its memory comes from.
  BufferPool& pool() const { return pool_; }
  size_t num_elements() const { return num_elements_; }
  /// As `Column::byte_size`, of what was appended so far.
  int64_t byte_size() const { return static_cast<int64_t>(used_) + payload_; }
  [[nodiscard]] Column finish();

  /// From here on elements hold what they need anew, so that they can be split off.
  void mark();
  /// The first `num_elements`, no fewer than there were at the last mark, as a column. The others stay, and hold only
  /// what was held since the mark.
  [[nodiscard]] Column split(size_t num_elements);

 private:
  void reserve(size_t bytes) {
    if (used_ + bytes > capacity_) grow(bytes);
  }
  void grow(size_t bytes);
  void append_values(const Column& column, size_t first, size_t count);
  int64_t payload_of(size_t begin, size_t end) const;

  BufferPool& pool_;
  DType dtype_;
  Shape shape_;
  bool fixed_;
  bool ragged_;
  size_t stride_;  // values of an element, when fixed
  size_t num_elements_ = 0;
  Buffer values_;
  size_t capacity_ = 0;
  size_t used_ = 0;
  size_t last_used_ = 0;  // by the column before: what the next one will need
  int64_t payload_ = 0;   // bytes that views point to
  CountedVector<int64_t> offsets_;
  CountedVector<int64_t> dims_;
  CountedVector<int64_t> size_offsets_;  // when ragged: where the sizes of each element begin in `dims_`, and their end
  KeepAliveList before_mark_;
  KeepAliveList holds_;  // since the mark
  // Resources seen lately, by address: gathering from some inputs in turn must not search the list for each element.
  std::array<const Resource*, 64> seen_{};
  Buffer store_;
  size_t store_used_ = 0;
};

}  // namespace millrace
