#include "millrace/formats/columnar/column.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "millrace/formats/columnar/counted_allocator.h"
#include "millrace/formats/columnar/ragged_shapes.h"
#include "millrace/formats/error.h"

namespace millrace {
namespace {

const int64_t* copy_numbers(BufferPool& pool, std::span<const int64_t> numbers, KeepAliveList& owned) {
  Buffer buffer = pool.allocate(numbers.size_bytes());
  if (!numbers.empty()) std::memcpy(buffer->data(), numbers.data(), numbers.size_bytes());
  const auto* copied = reinterpret_cast<const int64_t*>(buffer->data());
  owned.add(buffer);
  return copied;
}

}  // namespace

Column Column::of_fixed(const Buffer& values, DType dtype, Shape shape, size_t num_elements) {
  Column column;
  column.dtype_ = dtype;
  column.rank_ = static_cast<int>(shape.size());
  column.stride_ = millrace::num_values(shape);
  assert(column.stride_ >= 0);
  column.shape_ = std::move(shape);
  column.num_elements_ = num_elements;
  column.data_ = values->data();
  column.own_.add(values);
  return column;
}

Column Column::of_varying(BufferPool& pool, const Buffer& values, DType dtype, int rank,
                          std::span<const int64_t> offsets, std::span<const int64_t> dims) {
  assert(!offsets.empty() && rank >= 1);
  assert(rank == 1 || dims.size() == (offsets.size() - 1) * static_cast<size_t>(rank));
  Column column;
  column.dtype_ = dtype;
  column.rank_ = rank;
  column.num_elements_ = offsets.size() - 1;
  column.data_ = values->data();
  column.own_.add(values);
  column.offsets_ = copy_numbers(pool, offsets, column.own_);
  if (rank > 1) column.dims_ = copy_numbers(pool, dims, column.own_);
  return column;
}

void Column::set_ragged(BufferPool& pool, uint32_t ragged, std::span<const int64_t> offsets,
                        std::span<const int64_t> sizes, std::span<const int64_t> size_offsets) {
  assert(ragged != 0 && size_offsets.size() == offsets.size());
  ragged_ = ragged;
  num_elements_ = offsets.size() - 1;
  offsets_ = copy_numbers(pool, offsets, own_);
  dims_ = copy_numbers(pool, sizes, own_);
  size_offsets_ = copy_numbers(pool, size_offsets, own_);
}

Column Column::of_ragged(BufferPool& pool, const Buffer& values, DType dtype, const Shape& shape,
                         std::span<const int64_t> offsets, std::span<const int64_t> sizes,
                         std::span<const int64_t> size_offsets) {
  Column column;
  column.dtype_ = dtype;
  column.rank_ = static_cast<int>(shape.size());
  column.data_ = values->data();
  column.own_.add(values);
  column.set_ragged(pool, ragged_dimensions(shape), offsets, sizes, size_offsets);
  return column;
}

Column Column::ragged(BufferPool& pool, DType dtype, const Shape& shape, std::span<const int64_t> offsets,
                      std::span<const int64_t> sizes, std::span<const int64_t> size_offsets) {
  const Buffer values = pool.allocate(static_cast<size_t>(offsets.back()) * size_of(dtype));
  return of_ragged(pool, values, dtype, shape, offsets, sizes, size_offsets);
}

Column Column::fixed(BufferPool& pool, DType dtype, Shape shape, size_t num_elements) {
  const int64_t stride = millrace::num_values(shape);
  assert(stride >= 0);
  Buffer values = pool.allocate(static_cast<size_t>(stride) * num_elements * size_of(dtype));
  return of_fixed(values, dtype, std::move(shape), num_elements);
}

Column Column::varying(BufferPool& pool, DType dtype, int rank, std::span<const int64_t> offsets,
                       std::span<const int64_t> dims) {
  Buffer values = pool.allocate(static_cast<size_t>(offsets.back()) * size_of(dtype));
  return of_varying(pool, values, dtype, rank, offsets, dims);
}

Column Column::like(BufferPool& pool, DType dtype, const Column& shapes) {
  if (shapes.has_fixed_shape()) return fixed(pool, dtype, shapes.shape_, shapes.num_elements_);
  // Offsets of a slice do not begin at 0: the new values are addressed as the old ones were.
  Column column = shapes;
  column.dtype_ = dtype;
  column.holds_ = {};
  const int64_t first = shapes.begin(0);
  Buffer values = pool.allocate(static_cast<size_t>(shapes.total_values()) * size_of(dtype));
  column.data_ = values->data() - first * static_cast<int64_t>(size_of(dtype));
  column.own_.add(values);
  return column;
}

Shape Column::shape(size_t element) const {
  if (offsets_ == nullptr) return shape_;
  if (dims_ == nullptr) return {num_values(element)};
  if (ragged_ != 0) return ragged_shape(sizes(element), static_cast<size_t>(rank_), ragged_);
  const int64_t* sizes = sizes_of(element);
  return {sizes, sizes + rank_};
}

int64_t Column::ragged_size(size_t element, size_t dimension) const {
  assert(!is_ragged(dimension));
  return shape(element)[dimension];
}

std::span<const int64_t> Column::row_splits(size_t element, size_t dimension) const {
  if (!is_ragged(dimension)) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("dimension {} of {} is not ragged", dimension, to_string(shape(element))));
  }
  return millrace::row_splits(sizes(element), ragged_, dimension);
}

Column Column::slice(size_t first, size_t count) const {
  assert(first + count <= num_elements_);
  Column part = *this;
  part.num_elements_ = count;
  if (offsets_ == nullptr) {
    part.data_ = data_ + first * static_cast<size_t>(stride_) * size_of(dtype_);
  } else {
    part.offsets_ = offsets_ + first;
    if (size_offsets_ != nullptr) {
      part.size_offsets_ = size_offsets_ + first;
    } else if (dims_ != nullptr)
      part.dims_ = dims_ + first * static_cast<size_t>(rank_);
  }
  return part;
}

Column Column::grouped(size_t rows) && {
  assert(has_fixed_shape() && rows > 0 && num_elements_ % rows == 0);
  shape_.insert(shape_.begin(), static_cast<int64_t>(rows));
  rank_ += 1;
  stride_ *= static_cast<int64_t>(rows);
  num_elements_ /= rows;
  return std::move(*this);
}

Column Column::grouped(size_t rows, BufferPool& pool) const {
  if (has_fixed_shape()) return grouped(rows);
  assert(rows > 0 && num_elements_ % rows == 0);
  const size_t groups = num_elements_ / rows;
  const auto inner = static_cast<size_t>(rank_);
  const CountedAllocator<int64_t> counted(pool);
  CountedVector<int64_t> offsets(groups + 1, 0, counted);
  CountedVector<int64_t> dims(groups * (inner + 1), 1, counted);
  for (size_t g = 0; g <= groups; ++g) offsets[g] = offsets_[g * rows];
  for (size_t g = 0; g < groups; ++g) {
    int64_t* sizes = dims.data() + g * (inner + 1);
    if (!same_shapes(g * rows, rows)) {
      sizes[0] = offsets[g + 1] - offsets[g];
      continue;
    }
    const Shape one = shape(g * rows);
    sizes[0] = static_cast<int64_t>(rows);
    std::copy(one.begin(), one.end(), sizes + 1);
  }
  Column batches = *this;
  batches.rank_ += 1;
  batches.num_elements_ = groups;
  batches.offsets_ = copy_numbers(pool, offsets, batches.own_);
  batches.dims_ = copy_numbers(pool, dims, batches.own_);
  return batches;
}

Column Column::grouped_ragged(size_t rows, const Shape& shape, BufferPool& pool) const {
  assert(rows > 0 && num_elements_ % rows == 0 && static_cast<int>(shape.size()) == rank_ + 1);
  const size_t groups = num_elements_ / rows;
  const CountedAllocator<int64_t> counted(pool);
  CountedVector<int64_t> offsets(groups + 1, 0, counted);
  CountedVector<int64_t> sizes(counted);
  CountedVector<int64_t> size_offsets({0}, counted);
  CountedVector<std::span<const int64_t>> group(rows, {}, counted);
  CountedVector<int64_t> lengths(rows, 0, counted);  // of vectors, which have no sizes beside their offsets
  for (size_t g = 0; g < groups; ++g) {
    const size_t first = g * rows;
    offsets[g] = begin(first);
    for (size_t row = 0; row < rows; ++row) {
      if (has_fixed_shape()) {
        group[row] = shape_;
      } else if (dims_ == nullptr) {
        lengths[row] = num_values(first + row);
        group[row] = {&lengths[row], 1};
      } else {
        group[row] = {sizes_of(first + row), num_sizes(first + row)};
      }
    }
    append_group_sizes(group, ragged_, shape, sizes);
    size_offsets.push_back(static_cast<int64_t>(sizes.size()));
  }
  offsets[groups] = begin(num_elements_);
  Column batches = *this;
  batches.rank_ += 1;
  batches.set_ragged(pool, ragged_dimensions(shape), offsets, sizes, size_offsets);
  return batches;
}

Column Column::ungrouped(size_t first, size_t count, BufferPool& pool) const {
  assert(rank_ > 0);
  Column rows = slice(first, count);
  const auto inner_rank = static_cast<size_t>(rank_) - 1;
  rows.rank_ -= 1;
  if (offsets_ == nullptr) {
    rows.num_elements_ = count * static_cast<size_t>(shape_[0]);
    rows.shape_.erase(rows.shape_.begin());
    rows.stride_ = millrace::num_values(rows.shape_);
    return rows;
  }
  // Rows of one shape, scalars among them, need no offsets.
  const auto become_fixed = [&](Shape shape, size_t num_rows) {
    rows.data_ = data(first);
    rows.offsets_ = rows.dims_ = nullptr;
    rows.stride_ = millrace::num_values(shape);
    rows.shape_ = std::move(shape);
    rows.num_elements_ = num_rows;
    return rows;
  };
  if (inner_rank == 0) return become_fixed({}, static_cast<size_t>(rows.total_values()));

  const CountedAllocator<int64_t> counted(pool);
  CountedVector<int64_t> offsets({begin(first)}, counted);
  CountedVector<int64_t> sizes(counted);
  if (ragged_ == 0) {
    bool one_shape = true;
    size_t num_rows = 0;
    for (size_t e = first; e < first + count; ++e) {
      one_shape = one_shape && std::equal(sizes_of(e) + 1, sizes_of(e) + rank_, sizes_of(first) + 1);
      num_rows += static_cast<size_t>(sizes_of(e)[0]);
    }
    if (one_shape && count > 0) return become_fixed({sizes_of(first) + 1, sizes_of(first) + rank_}, num_rows);
    for (size_t e = first; e < first + count; ++e) {
      const int64_t* shape = sizes_of(e);
      const int64_t stride = shape[0] == 0 ? 0 : num_values(e) / shape[0];
      for (int64_t row = 0; row < shape[0]; ++row) {
        offsets.push_back(offsets.back() + stride);
        if (inner_rank > 1) sizes.insert(sizes.end(), shape + 1, shape + rank_);
      }
    }
  } else {
    CountedVector<int64_t> size_offsets({0}, counted);
    for (size_t e = first; e < first + count; ++e) {
      for (int64_t row = 0; row < sizes_of(e)[0]; ++row) {
        const int64_t values = append_row_sizes(this->sizes(e), static_cast<size_t>(rank_), ragged_, row, sizes);
        offsets.push_back(offsets.back() + values);
        size_offsets.push_back(static_cast<int64_t>(sizes.size()));
      }
    }
    if (const uint32_t ragged = row_dimensions(ragged_); ragged != 0) {
      rows.set_ragged(pool, ragged, offsets, sizes, size_offsets);
      return rows;
    }
    rows.ragged_ = 0;
    rows.size_offsets_ = nullptr;
  }
  rows.num_elements_ = offsets.size() - 1;
  rows.offsets_ = copy_numbers(pool, offsets, rows.own_);
  rows.dims_ = inner_rank > 1 ? copy_numbers(pool, sizes, rows.own_) : nullptr;
  return rows;
}

bool Column::same_shapes(size_t first, size_t count) const {
  if (offsets_ == nullptr || count == 0) return true;
  for (size_t i = first + 1; i < first + count; ++i) {
    if (dims_ == nullptr
            ? num_values(i) != num_values(first)
            : !std::equal(dims_ + i * static_cast<size_t>(rank_), dims_ + (i + 1) * static_cast<size_t>(rank_),
                          dims_ + first * static_cast<size_t>(rank_))) {
      return false;
    }
  }
  return true;
}

int64_t Column::byte_size() const {
  int64_t bytes = total_values() * static_cast<int64_t>(size_of(dtype_));
  if (dtype_ == DType::kBytes) {
    // Eight in a turn of the loop: statistics look at every value that passes a stage.
    std::span<const std::string_view> left = values<std::string_view>();
    for (constexpr size_t kAtOnce = 8; left.size() >= kAtOnce; left = left.subspan(kAtOnce)) {
      for (size_t i = 0; i < kAtOnce; ++i) bytes += static_cast<int64_t>(left[i].size());
    }
    for (const std::string_view value : left) bytes += static_cast<int64_t>(value.size());
  }
  return bytes;
}

int64_t Column::held_bytes() const {
  int64_t bytes = 0;
  const auto count = [&bytes](const Ref<Resource>& resource) {
    if (const auto* buffer = dynamic_cast<const BufferBody*>(resource.get())) {
      bytes += static_cast<int64_t>(buffer->capacity());
    }
  };
  own_.for_each(count);
  holds_.for_each(count);
  return bytes;
}

}  // namespace millrace
