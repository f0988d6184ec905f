#include "formats/columnar/column.h"

#include <cstring>

namespace millrace {
namespace {

const int64_t* copy_numbers(BufferPool& pool, std::span<const int64_t> numbers, Holds& holds) {
  Buffer buffer = pool.allocate(numbers.size_bytes());
  std::memcpy(buffer->data(), numbers.data(), numbers.size_bytes());
  const auto* copied = reinterpret_cast<const int64_t*>(buffer->data());
  holds.add(buffer);
  return copied;
}

}  // namespace

Column Column::fixed(BufferPool& pool, DType dtype, Shape shape, size_t num_elements) {
  Column column;
  column.dtype_ = dtype;
  column.rank_ = static_cast<int>(shape.size());
  column.stride_ = millrace::num_values(shape);
  assert(column.stride_ >= 0);
  column.shape_ = std::move(shape);
  column.num_elements_ = num_elements;
  Buffer buffer = pool.allocate(static_cast<size_t>(column.stride_) * num_elements * size_of(dtype));
  column.data_ = buffer->data();
  column.holds_.add(buffer);
  return column;
}

Column Column::varying(BufferPool& pool, DType dtype, int rank, std::span<const int64_t> offsets,
                       std::span<const int64_t> dims) {
  assert(!offsets.empty() && rank >= 1);
  assert(rank == 1 || dims.size() == (offsets.size() - 1) * static_cast<size_t>(rank));
  Column column;
  column.dtype_ = dtype;
  column.rank_ = rank;
  column.num_elements_ = offsets.size() - 1;
  Buffer buffer = pool.allocate(static_cast<size_t>(offsets.back()) * size_of(dtype));
  column.data_ = buffer->data();
  column.holds_.add(buffer);
  column.offsets_ = copy_numbers(pool, offsets, column.holds_);
  if (rank > 1) column.dims_ = copy_numbers(pool, dims, column.holds_);
  return column;
}

Shape Column::shape(size_t element) const {
  if (offsets_ == nullptr) return shape_;
  if (dims_ == nullptr) return {num_values(element)};
  const int64_t* first = dims_ + element * static_cast<size_t>(rank_);
  return {first, first + rank_};
}

Column Column::slice(size_t first, size_t count) const {
  assert(first + count <= num_elements_);
  Column part = *this;
  part.num_elements_ = count;
  if (offsets_ == nullptr) {
    part.data_ = data_ + first * static_cast<size_t>(stride_) * size_of(dtype_);
  } else {
    part.offsets_ = offsets_ + first;
    if (dims_ != nullptr) part.dims_ = dims_ + first * static_cast<size_t>(rank_);
  }
  return part;
}

Column Column::grouped(size_t rows) const {
  assert(has_fixed_shape() && rows > 0 && num_elements_ % rows == 0);
  Column batches = *this;
  batches.shape_.insert(batches.shape_.begin(), static_cast<int64_t>(rows));
  batches.rank_ += 1;
  batches.stride_ *= static_cast<int64_t>(rows);
  batches.num_elements_ /= rows;
  return batches;
}

int64_t Column::byte_size() const {
  int64_t bytes = total_values() * static_cast<int64_t>(size_of(dtype_));
  if (dtype_ == DType::kBytes) {
    for (const std::string_view value : values<std::string_view>()) bytes += static_cast<int64_t>(value.size());
  }
  return bytes;
}

ColumnBuilder::ColumnBuilder(BufferPool& pool, const FeatureSpec& feature)
    : pool_(pool), dtype_(feature.dtype), shape_(feature.shape), fixed_(feature.has_fixed_shape()) {}

void ColumnBuilder::reserve(int64_t bytes) {
  const size_t needed = used_ + static_cast<size_t>(bytes);
  if (values_ && needed <= values_->capacity()) return;
  Buffer larger = pool_.allocate(std::max(needed, 2 * used_));
  if (used_ > 0) std::memcpy(larger->data(), values_->data(), used_);
  values_ = std::move(larger);
}

void ColumnBuilder::append_raw(const std::byte* values, int64_t count, std::span<const int64_t> shape) {
  assert(shape.size() == shape_.size());
  const int64_t bytes = count * static_cast<int64_t>(size_of(dtype_));
  reserve(bytes);
  if (bytes > 0) std::memcpy(values_->data() + used_, values, static_cast<size_t>(bytes));
  used_ += static_cast<size_t>(bytes);
  ++num_elements_;
  if (fixed_) return;
  offsets_.push_back(offsets_.back() + count);
  dims_.insert(dims_.end(), shape.begin(), shape.end());
}

void ColumnBuilder::append(const Column& column, size_t element) {
  assert(column.dtype() == dtype_);
  const Shape shape = column.shape(element);
  append_raw(column.data(element), column.num_values(element), shape);
  if (dtype_ == DType::kBytes) {
    column.holds().for_each([this](const Ref<Resource>& resource) { hold(resource); });
  }
}

void ColumnBuilder::append_nothing() {
  if (!fixed_) {
    const Shape nothing(shape_.size(), 0);
    append_raw(nullptr, 0, nothing);
    return;
  }
  const int64_t bytes = millrace::num_values(shape_) * static_cast<int64_t>(size_of(dtype_));
  reserve(bytes);
  std::memset(values_->data() + used_, 0, static_cast<size_t>(bytes));
  used_ += static_cast<size_t>(bytes);
  ++num_elements_;
}

Column ColumnBuilder::finish() {
  Column column;
  if (fixed_) {
    column = Column::fixed(pool_, dtype_, shape_, num_elements_);
  } else {
    column = Column::varying(pool_, dtype_, static_cast<int>(shape_.size()), offsets_, dims_);
  }
  if (used_ > 0) std::memcpy(column.mutable_data(0), values_->data(), used_);
  holds_.for_each([&column](const Ref<Resource>& resource) { column.hold(resource); });
  return column;
}

}  // namespace millrace
