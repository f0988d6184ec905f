#include "formats/example/feature_description.h"

#include <fmt/format.h>

#include "formats/error.h"
#include "formats/utf8.h"

namespace millrace {

FeatureDescription FeatureDescription::as(DType type) const {
  FeatureDescription other = *this;
  other.dtype = type;
  return other;
}

FeatureDescription FeatureDescription::named(std::string column) const {
  FeatureDescription other = *this;
  other.name = std::move(column);
  return other;
}

FeatureDescription FeatureDescription::default_value(FeatureDefault values) const {
  FeatureDescription other = *this;
  other.default_values = std::move(values);
  return other;
}

void FeatureDescription::check() const {
  const auto refuse = [this](const std::string& why) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("parse_example: feature '{}': {}", key, why));
  };
  if (!is_valid_utf8(key)) refuse("the key is not UTF-8, and so in no record");
  if (stored == DType::kInt32) refuse("records store int64, float32 or bytes; use kInt64 and .as(kInt32)");
  const bool narrows = stored == DType::kInt64 && dtype == DType::kInt32;
  if (dtype != stored && !narrows) refuse(fmt::format("no cast from {} to {}", to_string(stored), to_string(dtype)));
  for (const int64_t size : shape) {
    if (size < 0) refuse(fmt::format("shape {} has a size that is not fixed", to_string(shape)));
  }
  const auto check_default = [&](size_t count, DType type) {
    if (type != stored) refuse(fmt::format("the default is {}, the feature {}", to_string(type), to_string(stored)));
    const auto values = static_cast<size_t>(num_values(shape));
    if (count != values) {
      refuse(fmt::format("the default has {} values, the shape {} needs {}", count, to_string(shape), values));
    }
  };
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&default_values)) {
    check_default(ints->size(), DType::kInt64);
    for (const int64_t value : *ints) {
      if (narrows && value != static_cast<int32_t>(value)) refuse(fmt::format("default {} does not fit int32", value));
    }
  } else if (const auto* floats = std::get_if<std::vector<float>>(&default_values)) {
    check_default(floats->size(), DType::kFloat32);
  } else if (const auto* strings = std::get_if<std::vector<std::string>>(&default_values)) {
    check_default(strings->size(), DType::kBytes);
  }
}

FeatureDescription fixed_len(std::string key, Shape shape, DType stored) {
  FeatureDescription description;
  description.name = key;
  description.key = std::move(key);
  description.stored = stored;
  description.dtype = stored;
  description.shape = std::move(shape);
  return description;
}

}  // namespace millrace
