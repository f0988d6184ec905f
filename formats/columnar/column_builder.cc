#include "millrace/formats/columnar/column_builder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace millrace {

namespace {

// Begins anew, without the memory that a large column took.
void restart(CountedVector<int64_t>& numbers) {
  constexpr size_t kKept = 4096;
  if (numbers.capacity() <= kKept) return numbers.clear();
  CountedVector<int64_t>(numbers.get_allocator()).swap(numbers);
}

}  // namespace

ColumnBuilder::ColumnBuilder(BufferPool& pool, const FeatureSpec& feature)
    : pool_(pool),
      dtype_(feature.dtype),
      shape_(feature.shape),
      fixed_(feature.has_fixed_shape()),
      ragged_(feature.is_ragged()),
      stride_(fixed_ ? static_cast<size_t>(millrace::num_values(shape_)) : 0),
      offsets_(1, 0, CountedAllocator<int64_t>(pool)),
      dims_(CountedAllocator<int64_t>(pool)),
      size_offsets_(CountedAllocator<int64_t>(pool)) {
  if (ragged_) size_offsets_.push_back(0);
}

void ColumnBuilder::grow(size_t bytes) {
  Buffer larger = pool_.allocate(std::max({used_ + bytes, 2 * used_, last_used_}));
  if (used_ > 0) std::memcpy(larger->data(), values_->data(), used_);
  values_ = std::move(larger);
  capacity_ = values_->capacity();
}

int64_t ColumnBuilder::payload_of(size_t begin, size_t end) const {
  if (dtype_ != DType::kBytes || begin == end) return 0;
  int64_t bytes = 0;
  const auto* views = reinterpret_cast<const std::string_view*>(values_->data());
  for (size_t i = begin / sizeof(std::string_view); i < end / sizeof(std::string_view); ++i) {
    bytes += static_cast<int64_t>(views[i].size());
  }
  return bytes;
}

void ColumnBuilder::append_untyped(const std::byte* values, int64_t count, std::span<const int64_t> shape) {
  assert(ragged_ || shape.size() == shape_.size());
  assert(!fixed_ || count == static_cast<int64_t>(stride_));
  const size_t bytes = static_cast<size_t>(count) * size_of(dtype_);
  reserve(bytes);
  if (values != nullptr) {
    if (bytes > 0) std::memcpy(values_->data() + used_, values, bytes);
  } else if (dtype_ == DType::kBytes && bytes > 0) {
    std::memset(values_->data() + used_, 0, bytes);
  }
  used_ += bytes;
  payload_ += payload_of(used_ - bytes, used_);
  ++num_elements_;
  if (fixed_) return;
  offsets_.push_back(offsets_.back() + count);
  if (shape_.size() > 1) dims_.insert(dims_.end(), shape.begin(), shape.end());
  if (ragged_) size_offsets_.push_back(static_cast<int64_t>(dims_.size()));
}

void ColumnBuilder::append(const Column& column, size_t first, size_t count) {
  assert(column.dtype() == dtype_ && column.rank() == static_cast<int>(shape_.size()));
  if (dtype_ == DType::kBytes) {
    column.holds().for_each([this](const Ref<Resource>& resource) { hold(resource); });
    if (count == 1 && stride_ == 1) {
      append_view(*reinterpret_cast<const std::string_view*>(column.data(first)));
      return;
    }
  }
  append_values(column, first, count);
}

void ColumnBuilder::append_copied(const Column& column, size_t first, size_t count) {
  const size_t before = used_;
  append_values(column, first, count);
  if (dtype_ != DType::kBytes || used_ == before) return;
  const std::span<std::string_view> views(reinterpret_cast<std::string_view*>(values_->data() + before),
                                          (used_ - before) / sizeof(std::string_view));
  for (std::string_view& view : views) view = store(view);
}

void ColumnBuilder::append_values(const Column& column, size_t first, size_t count) {
  assert(column.dtype() == dtype_ && column.rank() == static_cast<int>(shape_.size()));
  const int64_t begin = column.begin(first);
  const size_t bytes = static_cast<size_t>(column.begin(first + count) - begin) * size_of(dtype_);
  assert(!fixed_ || bytes == stride_ * count * size_of(dtype_));
  reserve(bytes);
  if (bytes > 0) std::memcpy(values_->data() + used_, column.data(first), bytes);
  used_ += bytes;
  payload_ += payload_of(used_ - bytes, used_);
  num_elements_ += count;
  if (fixed_) return;
  const int64_t shift = offsets_.back() - begin;
  if (ragged_) {
    assert(column.is_ragged());
    const int64_t size_shift = static_cast<int64_t>(dims_.size()) - column.size_offsets_[first];
    dims_.insert(dims_.end(), column.dims_ + column.size_offsets_[first],
                 column.dims_ + column.size_offsets_[first + count]);
    for (size_t i = first; i < first + count; ++i) {
      offsets_.push_back(column.begin(i + 1) + shift);
      size_offsets_.push_back(column.size_offsets_[i + 1] + size_shift);
    }
    return;
  }
  for (size_t i = first; i < first + count; ++i) {
    offsets_.push_back(column.begin(i + 1) + shift);
    if (shape_.size() == 1) continue;
    if (column.has_fixed_shape()) {
      dims_.insert(dims_.end(), column.shape_.begin(), column.shape_.end());
    } else {
      const int64_t* sizes = column.dims_ + i * shape_.size();
      dims_.insert(dims_.end(), sizes, sizes + shape_.size());
    }
  }
}

void ColumnBuilder::append_nothing() {
  if (!fixed_) {
    offsets_.push_back(offsets_.back());
    // A ragged dimension of no rows has one split.
    if (shape_.size() > 1) dims_.insert(dims_.end(), shape_.size(), 0);
    if (ragged_) size_offsets_.push_back(static_cast<int64_t>(dims_.size()));
    ++num_elements_;
    return;
  }
  const size_t bytes = stride_ * size_of(dtype_);
  reserve(bytes);
  if (bytes > 0) std::memset(values_->data() + used_, 0, bytes);
  used_ += bytes;
  ++num_elements_;
}

void ColumnBuilder::truncate(size_t num_elements) {
  if (num_elements >= num_elements_) return;
  const size_t kept = (fixed_ ? stride_ * num_elements : static_cast<size_t>(offsets_[num_elements])) * size_of(dtype_);
  payload_ -= payload_of(kept, used_);
  used_ = kept;
  num_elements_ = num_elements;
  if (fixed_) return;
  offsets_.resize(num_elements + 1);
  if (ragged_) {
    size_offsets_.resize(num_elements + 1);
    dims_.resize(static_cast<size_t>(size_offsets_.back()));
  } else if (shape_.size() > 1) {
    dims_.resize(num_elements * shape_.size());
  }
}

void ColumnBuilder::expect(const Column& column, size_t num_elements) {
  if (column.num_elements() == 0) return;
  const double values = static_cast<double>(column.total_values()) / static_cast<double>(column.num_elements());
  last_used_ = static_cast<size_t>(std::ceil(values * static_cast<double>(num_elements))) * size_of(dtype_);
}

void ColumnBuilder::hold(const Ref<Resource>& resource) {
  // The upper bits of the product depend on all of the address.
  const Resource*& seen = seen_[(reinterpret_cast<uintptr_t>(resource.get()) * 0x9e3779b97f4a7c15ULL) >> 58];
  if (seen == resource.get()) return;
  seen = resource.get();
  holds_.add_once(resource);
}

std::string_view ColumnBuilder::store(std::string_view bytes) {
  if (bytes.empty()) return {};
  if (!store_ || store_used_ + bytes.size() > store_->capacity()) {
    constexpr size_t kStoreBytes = 64 << 10;
    store_ = pool_.allocate(std::max(bytes.size(), kStoreBytes));
    store_used_ = 0;
    hold(store_);
  }
  char* place = reinterpret_cast<char*>(store_->data()) + store_used_;
  std::memcpy(place, bytes.data(), bytes.size());
  store_used_ += bytes.size();
  return {place, bytes.size()};
}

Column ColumnBuilder::finish() {
  if (!values_) grow(0);
  Column column;
  if (fixed_) {
    column = Column::of_fixed(values_, dtype_, shape_, num_elements_);
  } else if (ragged_) {
    column = Column::of_ragged(pool_, values_, dtype_, shape_, offsets_, dims_, size_offsets_);
    restart(size_offsets_);
    size_offsets_.push_back(0);
  } else {
    column = Column::of_varying(pool_, values_, dtype_, static_cast<int>(shape_.size()), offsets_, dims_);
  }
  if (before_mark_.empty()) {
    column.holds_ = std::move(holds_);
  } else {
    holds_.for_each([this](const Ref<Resource>& resource) { before_mark_.add_once(resource); });
    column.holds_ = std::move(before_mark_);
  }
  last_used_ = used_;
  values_ = {};
  capacity_ = used_ = num_elements_ = 0;
  payload_ = 0;
  restart(offsets_);
  offsets_.push_back(0);
  restart(dims_);
  before_mark_ = {};
  holds_ = {};
  seen_.fill(nullptr);
  store_ = {};
  return column;
}

void ColumnBuilder::mark() {
  holds_.for_each([this](const Ref<Resource>& resource) { before_mark_.add_once(resource); });
  holds_ = {};
  seen_.fill(nullptr);
  if (store_) hold(store_);
}

Column ColumnBuilder::split(size_t num_elements) {
  KeepAliveList since_mark = holds_;
  const size_t rest = num_elements_ - num_elements;
  const Column all = finish();
  // Not by way of `append`, which would hold all that the column does.
  Column without_holds = all;
  without_holds.holds_ = {};
  if (rest > 0) {
    append(without_holds, num_elements, rest);
    since_mark.for_each([this](const Ref<Resource>& resource) { hold(resource); });
  }
  return all.slice(0, num_elements);
}

}  // namespace millrace
