#include "millrace/formats/columnar/schema.h"

#include <unordered_set>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kInt32: return "int32";
    case DType::kInt64: return "int64";
    case DType::kFloat32: return "float32";
    case DType::kBytes: return "bytes";
    case DType::kUint8: return "uint8";
  }
  return "unknown";
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ',';
    text += shape[i] == kVaries ? "?" : shape[i] == kRagged ? "ragged" : fmt::to_string(shape[i]);
  }
  return text + "]";
}

int64_t num_values(std::span<const int64_t> shape) {
  int64_t product = 1;
  for (const int64_t size : shape) {
    if (size < 0) return kVaries;
    product *= size;
  }
  return product;
}

Schema::Schema(std::vector<FeatureSpec> features) : features_(std::move(features)) {
  std::unordered_set<std::string_view> names;
  for (size_t i = 0; i < features_.size(); ++i) {
    if (features_[i].name.empty()) {
      throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("feature {} has an empty name", i));
    }
    if (!names.insert(features_[i].name).second) {
      throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("feature '{}' occurs twice", features_[i].name));
    }
    int64_t values = 1;
    for (const int64_t size : features_[i].shape) {
      if (size > 0 && values > kMostElementValues / size) {
        throw ErrorException(ErrorCode::kInvalidArgument,
                             fmt::format("feature '{}' has the shape {}, more than {} values", features_[i].name,
                                         millrace::to_string(features_[i].shape), kMostElementValues));
      }
      if (size > 0) values *= size;
    }
  }
}

int Schema::find(std::string_view name) const {
  for (size_t i = 0; i < features_.size(); ++i) {
    if (features_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int Schema::column(std::string_view name) const {
  const int found = find(name);
  if (found < 0) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("no feature '{}' here; there are: {}", name, to_string()));
  }
  return found;
}

std::string Schema::to_string() const {
  std::string text;
  for (const FeatureSpec& feature : features_) {
    if (!text.empty()) text += ", ";
    text +=
        fmt::format("{} {} {}", feature.name, millrace::to_string(feature.dtype), millrace::to_string(feature.shape));
  }
  return text;
}

int64_t least_bytes(const Schema& schema, int64_t rows) {
  int64_t bytes = 0;
  for (const FeatureSpec& feature : schema.features()) {
    auto of_feature = static_cast<int64_t>(size_of(feature.dtype));
    for (size_t d = 0; d < feature.shape.size(); ++d) {
      int64_t size = feature.shape[d];
      if (size < 0) size = d == 0 ? rows : 0;
      if (__builtin_mul_overflow(of_feature, size, &of_feature)) of_feature = INT64_MAX;
    }
    if (__builtin_add_overflow(bytes, of_feature, &bytes)) bytes = INT64_MAX;
  }
  return bytes;
}

int64_t fixed_bytes(const Schema& schema) {
  int64_t bytes = 0;
  for (const FeatureSpec& feature : schema.features()) {
    if (!feature.has_fixed_shape() || feature.dtype == DType::kBytes) return 0;
    bytes += num_values(feature.shape) * static_cast<int64_t>(size_of(feature.dtype));
  }
  return bytes;
}

}  // namespace millrace
