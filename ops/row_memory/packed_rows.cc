#include "millrace/ops/row_memory/packed_rows.h"

#include <cassert>
#include <cstring>

#include "millrace/formats/columnar/packed_integers.h"
#include "millrace/formats/example/record_ahead.h"

namespace millrace {

PackedRowCodec::PackedRowCodec(const Schema& schema) {
  constexpr int64_t kMostPacked = 8;
  least_bytes_ = static_cast<size_t>(fixed_bytes(schema) / kMostPacked);
  for (const FeatureSpec& feature : schema.features()) {
    assert(feature.has_fixed_shape() && feature.dtype != DType::kBytes);
    features_.push_back({feature.dtype, static_cast<size_t>(num_values(feature.shape))});
    most_bytes_ += most_packed_bytes(features_.back().num_values, size_of(feature.dtype));
  }
}

size_t PackedRowCodec::encode(const Block& block, size_t element, std::byte* out) const {
  std::byte* const begin = out;
  for (size_t c = 0; c < features_.size(); ++c) {
    const Column& column = block.column(c);
    switch (features_[c].dtype) {
      case DType::kInt32: out += pack_integers(column.values<int32_t>(element), out); break;
      case DType::kInt64: out += pack_integers(column.values<int64_t>(element), out); break;
      case DType::kFloat32:
      case DType::kUint8:
        if (features_[c].num_values > 0) std::memcpy(out, column.data(element), features_[c].bytes());
        out += features_[c].bytes();
        break;
      case DType::kBytes: break;
    }
  }
  const auto bytes = static_cast<size_t>(out - begin);
  if (bytes >= least_bytes_) return bytes;
  std::memset(out, 0, least_bytes_ - bytes);
  return least_bytes_;
}

void PackedRowCodec::decode(std::string_view row, std::string_view next, std::span<std::byte*> places) const {
  const auto* in = reinterpret_cast<const std::byte*>(row.data());
  RecordAhead ahead(next, features_.size());
  for (size_t c = 0; c < features_.size(); ++c) {
    const Feature& feature = features_[c];
    ahead.ask_for_part();
    switch (feature.dtype) {
      case DType::kInt32:
        in += unpack_integers(in, std::span(reinterpret_cast<int32_t*>(places[c]), feature.num_values));
        break;
      case DType::kInt64:
        in += unpack_integers(in, std::span(reinterpret_cast<int64_t*>(places[c]), feature.num_values));
        break;
      case DType::kFloat32:
      case DType::kUint8:
        if (feature.num_values > 0) std::memcpy(places[c], in, feature.bytes());
        in += feature.bytes();
        break;
      case DType::kBytes: break;
    }
    places[c] += feature.bytes();
  }
}

void PackedRowCodec::write_zeros(size_t rows, std::span<std::byte*> places) const {
  for (size_t c = 0; c < features_.size(); ++c) {
    const size_t bytes = rows * features_[c].bytes();
    if (bytes > 0) std::memset(places[c], 0, bytes);
    places[c] += bytes;
  }
}

}  // namespace millrace
