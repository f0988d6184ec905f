#include "millrace/formats/columnar/row_codec.h"

#include <array>
#include <cstring>

namespace millrace {
namespace {

template <typename T>
void put(std::byte*& out, const T& value) {
  std::memcpy(out, &value, sizeof(value));
  out += sizeof(value);
}

template <typename T>
T take(const std::byte*& in) {
  T value;
  std::memcpy(&value, in, sizeof(value));
  in += sizeof(value);
  return value;
}

std::string_view raw_record(const Block& block, size_t element) {
  return *reinterpret_cast<const std::string_view*>(block.column(0).data(element));
}

}  // namespace

RowCodec::RowCodec(SchemaPtr schema)
    : schema_(std::move(schema)),
      is_raw_record_(schema_->size() == 1 && (*schema_)[0].dtype == DType::kBytes && (*schema_)[0].shape.empty()) {
  for (const FeatureSpec& feature : schema_->features()) has_views_ = has_views_ || feature.dtype == DType::kBytes;
}

size_t RowCodec::encoded_size(const Block& block, size_t element) const {
  if (is_raw_record_) return raw_record(block, element).size();
  size_t bytes = 0;
  for (size_t c = 0; c < schema_->size(); ++c) {
    const Column& column = block.column(c);
    const FeatureSpec& feature = (*schema_)[c];
    if (feature.is_ragged()) {
      bytes += (2 + column.sizes(element).size()) * sizeof(int64_t);
    } else if (!feature.has_fixed_shape()) {
      bytes += feature.shape.size() * sizeof(int64_t);
    }
    if (feature.dtype == DType::kBytes) {
      for (const std::string_view value : column.values<std::string_view>(element)) {
        bytes += sizeof(uint64_t) + value.size();
      }
    } else {
      bytes += static_cast<size_t>(column.num_values(element)) * size_of(feature.dtype);
    }
  }
  return bytes;
}

void RowCodec::encode(const Block& block, size_t element, std::byte* out) const {
  if (is_raw_record_) {
    const std::string_view record = raw_record(block, element);
    if (!record.empty()) std::memcpy(out, record.data(), record.size());
    return;
  }
  for (size_t c = 0; c < schema_->size(); ++c) {
    const Column& column = block.column(c);
    const FeatureSpec& feature = (*schema_)[c];
    if (feature.is_ragged()) {
      const std::span<const int64_t> sizes = column.sizes(element);
      put(out, column.num_values(element));
      put(out, static_cast<int64_t>(sizes.size()));
      for (const int64_t size : sizes) put(out, size);
    } else if (!feature.has_fixed_shape()) {
      for (size_t d = 0; d < feature.shape.size(); ++d) put(out, column.size(element, d));
    }
    if (feature.dtype == DType::kBytes) {
      const auto values = column.values<std::string_view>(element);
      for (const std::string_view value : values) put(out, static_cast<uint64_t>(value.size()));
      for (const std::string_view value : values) {
        if (!value.empty()) std::memcpy(out, value.data(), value.size());
        out += value.size();
      }
    } else {
      const size_t bytes = static_cast<size_t>(column.num_values(element)) * size_of(feature.dtype);
      if (bytes > 0) std::memcpy(out, column.data(element), bytes);
      out += bytes;
    }
  }
}

void RowCodec::decode(std::span<const std::byte> row, BlockBuilder& builder) const {
  if (is_raw_record_) {
    builder.column(0).append_view({reinterpret_cast<const char*>(row.data()), row.size()});
    builder.added_elements(1);
    return;
  }
  const std::byte* in = row.data();
  std::array<int64_t, 4> few;
  for (size_t c = 0; c < schema_->size(); ++c) {
    const FeatureSpec& feature = (*schema_)[c];
    std::span<const int64_t> shape = feature.shape;
    int64_t count = 0;
    ColumnBuilder& column = builder.column(c);
    CountedVector<int64_t> many{CountedAllocator<int64_t>(column.pool())};
    if (!feature.has_fixed_shape()) {
      if (feature.is_ragged()) count = take<int64_t>(in);
      const size_t num_sizes = feature.is_ragged() ? static_cast<size_t>(take<int64_t>(in)) : feature.shape.size();
      if (num_sizes > few.size()) many.resize(num_sizes);
      const std::span<int64_t> sizes(num_sizes > few.size() ? many.data() : few.data(), num_sizes);
      for (int64_t& size : sizes) size = take<int64_t>(in);
      shape = sizes;
    }
    if (!feature.is_ragged()) count = num_values(shape);
    if (feature.dtype == DType::kBytes) {
      const std::byte* sizes = in;
      in += static_cast<size_t>(count) * sizeof(uint64_t);
      CountedVector<std::string_view> values{CountedAllocator<std::string_view>(column.pool())};
      values.reserve(static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i) {
        const auto size = take<uint64_t>(sizes);
        values.emplace_back(reinterpret_cast<const char*>(in), size);
        in += size;
      }
      column.append<std::string_view>(values, shape);
    } else {
      column.append_untyped(in, count, shape);
      in += static_cast<size_t>(count) * size_of(feature.dtype);
    }
  }
  builder.added_elements(1);
}

void RowCodec::hold(const Ref<Resource>& resource, BlockBuilder& builder) const {
  for (size_t c = 0; c < schema_->size(); ++c) {
    if ((*schema_)[c].dtype == DType::kBytes) builder.column(c).hold(resource);
  }
}

}  // namespace millrace
