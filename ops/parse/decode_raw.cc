#include "millrace/ops/parse/decode_raw.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>

#include "millrace/formats/columnar/column_builder.h"
#include "millrace/formats/example/stored_number.h"
#include "millrace/ops/parse/decoded_column.h"

namespace millrace {
namespace {

struct RawTraits {
  std::string_view name;
  size_t size;
  DType dtype;
};

RawTraits traits_of(RawType type) {
  switch (type) {
    case RawType::kUint8: return {"uint8", 1, DType::kInt32};
    case RawType::kInt8: return {"int8", 1, DType::kInt32};
    case RawType::kUint16: return {"uint16", 2, DType::kInt32};
    case RawType::kInt16: return {"int16", 2, DType::kInt32};
    case RawType::kInt32: return {"int32", 4, DType::kInt32};
    case RawType::kInt64: return {"int64", 8, DType::kInt64};
    case RawType::kFloat32: return {"float32", 4, DType::kFloat32};
    case RawType::kFloat64: return {"float64", 8, DType::kFloat32};
    case RawType::kFloat16: return {"float16", 2, DType::kFloat32};
    case RawType::kBfloat16: return {"bfloat16", 2, DType::kFloat32};
    case RawType::kBool: return {"bool", 1, DType::kInt32};
  }
  return {};
}

template <typename Stored, typename Value>
void convert(std::string_view bytes, bool swap, std::byte* out) {
  auto* values = reinterpret_cast<Value*>(out);
  for (size_t i = 0; i < bytes.size() / sizeof(Stored); ++i) {
    char raw[sizeof(Stored)];
    std::memcpy(raw, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    if (swap) std::reverse(raw, raw + sizeof(Stored));
    Stored value;
    std::memcpy(&value, raw, sizeof(Stored));
    const auto number = number_of(value);
    if constexpr (std::is_same_v<Stored, double>) {
      if (is_beyond_float32(number)) {
        throw ErrorException(ErrorCode::kParse, fmt::format("the value {} is beyond float32", number));
      }
    }
    values[i] = static_cast<Value>(number);  // NOLINT(bugprone-signed-char-misuse): an int8 is a number
  }
}

void convert(RawType type, DType dtype, std::string_view bytes, bool swap, std::byte* out) {
  if (dtype == DType::kUint8) return convert<uint8_t, uint8_t>(bytes, swap, out);
  switch (type) {
    case RawType::kUint8: return convert<uint8_t, int32_t>(bytes, swap, out);
    case RawType::kInt8: return convert<int8_t, int32_t>(bytes, swap, out);
    case RawType::kUint16: return convert<uint16_t, int32_t>(bytes, swap, out);
    case RawType::kInt16: return convert<int16_t, int32_t>(bytes, swap, out);
    case RawType::kInt32: return convert<int32_t, int32_t>(bytes, swap, out);
    case RawType::kInt64: return convert<int64_t, int64_t>(bytes, swap, out);
    // As bits: a NaN keeps its own.
    case RawType::kFloat32: return convert<uint32_t, uint32_t>(bytes, swap, out);
    case RawType::kFloat64: return convert<double, float>(bytes, swap, out);
    case RawType::kFloat16: return convert<Half, float>(bytes, swap, out);
    case RawType::kBfloat16: return convert<Bfloat16, float>(bytes, swap, out);
    case RawType::kBool: return convert<Bool, int32_t>(bytes, swap, out);
  }
}

DType dtype_of(const std::string& feature, RawType type, const DecodeRawOptions& options) {
  const RawTraits traits = traits_of(type);
  const DType dtype = options.dtype.value_or(traits.dtype);
  if (dtype != traits.dtype && !(type == RawType::kUint8 && dtype == DType::kUint8)) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("decode_raw: feature '{}': {} comes as {}{}, not as {}", feature, traits.name,
                    to_string(traits.dtype), type == RawType::kUint8 ? " or uint8" : "", to_string(dtype)));
  }
  return dtype;
}

}  // namespace

DecodeRawOperator::DecodeRawOperator(const SchemaPtr& input, const std::string& feature, RawType type,
                                     const DecodeRawOptions& options)
    : MapOperator(decoded_schema(*input, feature, dtype_of(feature, type, options),
                                 options.shape.value_or(Shape{kVaries}), "decode_raw")),
      column_(static_cast<size_t>(input->column(feature))),
      type_(type),
      options_(options) {
  if (options.shape && num_values(*options.shape) == kVaries) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("decode_raw: feature '{}': the shape {} must be fixed; without one the numbers are "
                    "a vector",
                    feature, to_string(*options.shape)));
  }
}

Block DecodeRawOperator::apply(Block block, BufferPool& pool) const {
  const RawTraits traits = traits_of(type_);
  const bool swap = options_.little_endian != (std::endian::native == std::endian::little);
  return decode_column(block, schema(), column_, name(), pool, [&](std::string_view bytes, ColumnBuilder& decoded) {
    if (bytes.size() % traits.size != 0) {
      throw ErrorException(ErrorCode::kParse,
                           fmt::format("{} bytes are no whole number of {}", bytes.size(), traits.name));
    }
    const auto count = static_cast<int64_t>(bytes.size() / traits.size);
    if (options_.shape && count != num_values(*options_.shape)) {
      throw ErrorException(ErrorCode::kWrongShape,
                           fmt::format("has {} values, shape {} needs {}", count, to_string(*options_.shape),
                                       num_values(*options_.shape)));
    }
    const Shape shape = options_.shape.value_or(Shape{count});
    convert(type_, (*schema())[column_].dtype, bytes, swap, decoded.append_space(count, shape));
  });
}

}  // namespace millrace
