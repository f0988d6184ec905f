#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "millrace/formats/columnar/buffer.h"
#include "millrace/formats/columnar/keep_alive_list.h"
#include "millrace/formats/columnar/schema.h"

namespace millrace {

/// One feature of the k elements of a block: one values buffer, and where shapes vary the place and shape of each
/// element.
///
///     Column ids = Column::fixed(pool, DType::kInt32, {512}, 128);     // 128 elements of shape [512]
///     std::span<int32_t> row = ids.mutable_values<int32_t>(7);         // element 7
///
/// A column is filled by one writer and then shared by const reference; copies share the buffers. `bytes` values are
/// std::string_views into resources that the column holds (see `hold`).
class Column {
 public:
  Column() = default;

  /// k elements of one fixed shape, values not initialised.
  [[nodiscard]] static Column fixed(BufferPool& pool, DType dtype, Shape shape, size_t num_elements);

  /// k elements whose shapes vary: `offsets` has k + 1 entries (values before each element; the last is the total) and,
  /// when rank > 1, `dims` has k × rank sizes. With rank 1 the length is the difference of two offsets.
  [[nodiscard]] static Column varying(BufferPool& pool, DType dtype, int rank, std::span<const int64_t> offsets,
                                      std::span<const int64_t> dims = {});

  /// k elements with ragged dimensions, values not initialised. `offsets` as above; the sizes of element e are those of
  /// `sizes` from `size_offsets[e]` to `size_offsets[e + 1]`, see `sizes(element)`. `shape`: that of the feature.
  [[nodiscard]] static Column ragged(BufferPool& pool, DType dtype, const Shape& shape,
                                     std::span<const int64_t> offsets, std::span<const int64_t> sizes,
                                     std::span<const int64_t> size_offsets);

  /// Elements with the shapes of those of `shapes`, values not initialised.
  [[nodiscard]] static Column like(BufferPool& pool, DType dtype, const Column& shapes);

  DType dtype() const { return dtype_; }
  size_t num_elements() const { return num_elements_; }
  int rank() const { return rank_; }
  /// True when all elements have the shape `fixed_shape()`.
  bool has_fixed_shape() const { return offsets_ == nullptr; }
  const Shape& fixed_shape() const { return shape_; }
  /// True when some dimension is ragged (`kRagged`).
  bool is_ragged() const { return ragged_ != 0; }
  /// The shape of one element; `kRagged` in ragged dimensions.
  Shape shape(size_t element) const;
  /// The size of an element in one dimension, which is not ragged.
  int64_t size(size_t element, size_t dimension) const {
    if (offsets_ == nullptr) return shape_[dimension];
    if (dims_ == nullptr) return num_values(element);
    if (ragged_ != 0 && dimension > 0) return ragged_size(element, dimension);
    return sizes_of(element)[dimension];
  }
  /// All of the shape of an element with ragged dimensions. For each dimension, outermost first: its size; of a ragged
  /// one instead its row splits, one more than there are rows so far: row i has the rows (or values) from split i to
  /// split i + 1 of the next dimension.
  ///
  ///     [[1,2],[3],[]]   has the shape [3,ragged] and the sizes 3, 0 2 3 3
  std::span<const int64_t> sizes(size_t element) const {
    assert(ragged_ != 0);
    return {sizes_of(element), num_sizes(element)};
  }
  /// The row splits of a ragged dimension of an element: `0 2 3 3` above. Throws `kInvalidArgument` when the dimension
  /// is not ragged.
  std::span<const int64_t> row_splits(size_t element, size_t dimension = 1) const;
  /// Number of values of one element.
  int64_t num_values(size_t element) const {
    return offsets_ == nullptr ? stride_ : offsets_[element + 1] - offsets_[element];
  }

  /// The values of one element, row-major. T must be the type of `dtype()` and `element` one that is there: this is
  /// what operators read all values by, and builds with NDEBUG check neither (`Batch::values` and `RowView::values`
  /// do).
  template <typename T>
  std::span<const T> values(size_t element) const {
    assert(DTypeOf<T>::value == dtype_ && element < num_elements_);
    return {reinterpret_cast<const T*>(data_) + begin(element), static_cast<size_t>(num_values(element))};
  }
  template <typename T>
  std::span<T> mutable_values(size_t element) {
    const auto read_only = std::as_const(*this).template values<T>(element);
    return {const_cast<T*>(read_only.data()), read_only.size()};
  }
  /// The values of all elements, one after the other; not checked either.
  template <typename T>
  std::span<const T> values() const {
    assert(DTypeOf<T>::value == dtype_);
    return {reinterpret_cast<const T*>(data_) + (num_elements_ == 0 ? 0 : begin(0)),
            static_cast<size_t>(total_values())};
  }
  template <typename T>
  std::span<T> mutable_values() {
    const auto read_only = std::as_const(*this).template values<T>();
    return {const_cast<T*>(read_only.data()), read_only.size()};
  }
  /// The same without a type: `num_values(element) * size_of(dtype())` bytes.
  const std::byte* data(size_t element) const { return data_ + begin(element) * size_of(dtype_); }
  std::byte* mutable_data(size_t element) { return const_cast<std::byte*>(data(element)); }
  int64_t total_values() const {
    if (num_elements_ == 0) return 0;
    return offsets_ == nullptr ? stride_ * static_cast<int64_t>(num_elements_) : offsets_[num_elements_] - offsets_[0];
  }

  /// Keeps a resource alive as long as this column and its copies live. The same one twice in a row counts once.
  void hold(const Ref<Resource>& resource) { holds_.add(resource); }
  /// What `bytes` values point into; the column's own values are not among it.
  const KeepAliveList& holds() const { return holds_; }
  /// Whether no copy or slice of this column is left: then whoever has it may write its values again.
  bool is_only_owner() const { return own_.are_only_here(); }

  /// Elements [begin, begin + count) without a copy.
  [[nodiscard]] Column slice(size_t first, size_t count) const;

  /// Each `rows` neighbours become one element: k elements of shape [s…] become k / rows elements of shape [rows, s…],
  /// the values not copied. Needs a fixed shape and k divisible by rows.
  [[nodiscard]] Column grouped(size_t rows) const& { return Column(*this).grouped(rows); }
  [[nodiscard]] Column grouped(size_t rows) &&;
  /// The same where shapes may vary from group to group but not inside one: a group of unlike shapes becomes a flat
  /// element of no meaning, [values, 1…].
  [[nodiscard]] Column grouped(size_t rows, BufferPool& pool) const;
  /// The same where the lengths of the rows may differ inside a group: ragged elements of the feature shape `shape`,
  /// in which dimensions are ragged that vary in the elements.
  [[nodiscard]] Column grouped_ragged(size_t rows, const Shape& shape, BufferPool& pool) const;
  /// What makes up the elements [first, first + count), each along its first dimension, as elements; the values are not
  /// copied. Needs a rank of at least 1.
  [[nodiscard]] Column ungrouped(size_t first, size_t count, BufferPool& pool) const;
  /// Whether elements [first, first + count) have one shape.
  bool same_shapes(size_t first, size_t count) const;

  /// Bytes of values, and for `bytes` columns also of what the views point to.
  int64_t byte_size() const;
  /// Bytes of the buffers that stay while this column does, with what is free in them. A buffer that several columns
  /// keep counts in each; a resource that is no buffer counts nowhere.
  int64_t held_bytes() const;

 private:
  friend class ColumnBuilder;
  static Column of_fixed(const Buffer& values, DType dtype, Shape shape, size_t num_elements);
  static Column of_varying(BufferPool& pool, const Buffer& values, DType dtype, int rank,
                           std::span<const int64_t> offsets, std::span<const int64_t> dims);
  static Column of_ragged(BufferPool& pool, const Buffer& values, DType dtype, const Shape& shape,
                          std::span<const int64_t> offsets, std::span<const int64_t> sizes,
                          std::span<const int64_t> size_offsets);
  // `values` as elements [0, offsets.size() - 1), which begin at `offsets` and have sizes as `Column::ragged` says.
  void set_ragged(BufferPool& pool, uint32_t ragged, std::span<const int64_t> offsets, std::span<const int64_t> sizes,
                  std::span<const int64_t> size_offsets);
  const int64_t* sizes_of(size_t element) const {
    return dims_ + (size_offsets_ != nullptr ? static_cast<size_t>(size_offsets_[element])
                                             : element * static_cast<size_t>(rank_));
  }
  size_t num_sizes(size_t element) const {
    return size_offsets_ != nullptr ? static_cast<size_t>(size_offsets_[element + 1] - size_offsets_[element])
                                    : static_cast<size_t>(rank_);
  }
  bool is_ragged(size_t dimension) const { return (ragged_ >> dimension & 1) != 0; }
  int64_t ragged_size(size_t element, size_t dimension) const;
  int64_t begin(size_t element) const {
    return offsets_ == nullptr ? stride_ * static_cast<int64_t>(element) : offsets_[element];
  }

  DType dtype_ = DType::kInt64;
  int rank_ = 0;
  Shape shape_;         // when fixed
  int64_t stride_ = 1;  // values of an element, when fixed
  size_t num_elements_ = 0;
  const std::byte* data_ = nullptr;
  const int64_t* offsets_ = nullptr;       // num_elements_ + 1 entries, counted from data_
  const int64_t* dims_ = nullptr;          // num_elements_ * rank_ entries, or where there are `size_offsets_`
  uint32_t ragged_ = 0;                    // bit d: dimension d is ragged
  const int64_t* size_offsets_ = nullptr;  // when ragged: num_elements_ + 1 entries, counted from dims_
  KeepAliveList own_;                      // the buffers of values, offsets and sizes
  KeepAliveList holds_;
};

}  // namespace millrace
