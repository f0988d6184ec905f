#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/columnar/buffer.h"
#include "formats/columnar/schema.h"

namespace millrace {

/// Resources that a column keeps alive. The first has its place in the object: most columns hold one buffer. The others
/// are in a list that copies share, so that a copy counts two references and not one of each: rows that come from 16
/// shards in turn are cut and passed on several times.
class Holds {
 public:
  /// The same resource as the last one counts once.
  void add(const Ref<Resource>& resource) {
    if (!first_) {
      first_ = resource;
    } else if (!(resource == last())) {
      own_list().push_back(resource);
    }
  }
  /// Adds unless it is there already.
  void add_once(const Ref<Resource>& resource) {
    if (!contains(resource)) add(resource);
  }
  bool contains(const Ref<Resource>& resource) const {
    if (first_ == resource) return true;
    return more_ && std::find(more_->list.begin(), more_->list.end(), resource) != more_->list.end();
  }
  bool empty() const { return !first_; }
  /// Whether nobody else has a reference to any of them.
  bool are_only_here() const {
    bool only_here = !more_ || more_.is_only_one();
    for_each([&only_here](const Ref<Resource>& resource) { only_here = only_here && resource.is_only_one(); });
    return only_here;
  }
  template <typename Function>
  void for_each(Function&& function) const {
    if (first_) function(first_);
    if (!more_) return;
    for (const auto& held : more_->list) function(held);
  }

 private:
  struct More final : Resource {
    std::vector<Ref<Resource>> list;
    void release() noexcept override { delete this; }
  };

  const Ref<Resource>& last() const { return more_ ? more_->list.back() : first_; }
  // The list, which no other object shares.
  std::vector<Ref<Resource>>& own_list() {
    if (!more_ || !more_.is_only_one()) {
      const Ref<More> own(new More);
      constexpr size_t kLikely = 16;
      own->list.reserve(kLikely);
      if (more_) own->list.insert(own->list.end(), more_->list.begin(), more_->list.end());
      more_ = own;
    }
    return more_->list;
  }

  Ref<Resource> first_;
  Ref<More> more_;  // null, or not empty
};

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
    return {sizes_of(element), static_cast<size_t>(size_offsets_[element + 1] - size_offsets_[element])};
  }
  /// The row splits of a ragged dimension of an element: `0 2 3 3` above. Throws `kInvalidArgument` when the dimension
  /// is not ragged.
  std::span<const int64_t> row_splits(size_t element, size_t dimension = 1) const;
  /// Number of values of one element.
  int64_t num_values(size_t element) const {
    return offsets_ == nullptr ? stride_ : offsets_[element + 1] - offsets_[element];
  }

  /// The values of one element, row-major.
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
  /// The values of all elements, one after the other.
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
  const Holds& holds() const { return holds_; }
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
  // `values` as elements [0, offsets.size() - 1), which begin at `offsets` and have sizes as `Column::ragged` says.
  void set_ragged(BufferPool& pool, uint32_t ragged, std::span<const int64_t> offsets, std::span<const int64_t> sizes,
                  std::span<const int64_t> size_offsets);
  const int64_t* sizes_of(size_t element) const {
    return dims_ + (size_offsets_ != nullptr ? static_cast<size_t>(size_offsets_[element])
                                             : element * static_cast<size_t>(rank_));
  }
  bool is_ragged(size_t dimension) const { return (ragged_ >> dimension & 1) != 0; }
  int64_t ragged_size(size_t element, size_t dimension) const;
  // The sizes of a row of a ragged element, and where its values end.
  void append_row_sizes(size_t element, int64_t row, std::vector<int64_t>& sizes, std::vector<int64_t>& offsets) const;
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
  Holds own_;                              // the buffers of values, offsets and sizes
  Holds holds_;
};

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
  std::vector<int64_t> offsets_{0};
  std::vector<int64_t> dims_;
  std::vector<int64_t> size_offsets_;  // when ragged: where the sizes of each element begin in `dims_`, and their end
  Holds before_mark_;
  Holds holds_;  // since the mark
  // Resources seen lately, by address: gathering from some inputs in turn must not search the list for each element.
  std::array<const Resource*, 64> seen_{};
  Buffer store_;
  size_t store_used_ = 0;
};

}  // namespace millrace
