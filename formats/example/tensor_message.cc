#include "formats/example/tensor_message.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "formats/error.h"
#include "formats/example/wire.h"

namespace millrace {
namespace {

using namespace wire;

// tensorflow.DataType, as far as columns can hold it.
enum TensorType : int64_t {
  kFloat = 1,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kString = 7,
  kInt64 = 9,
  kBool = 10,
  kUint16 = 17,
};

// The fields of TensorProto.
constexpr uint32_t kTypeField = 1;
constexpr uint32_t kShapeField = 2;
constexpr uint32_t kContentField = 4;
constexpr uint32_t kFloatField = 5;
constexpr uint32_t kIntField = 7;
constexpr uint32_t kStringField = 8;
constexpr uint32_t kInt64Field = 10;
constexpr uint32_t kBoolField = 11;

struct TypeTraits {
  DType dtype;
  size_t size;     // of a value in the content; of strings 0
  uint32_t field;  // that lists the values
};

TypeTraits traits_of(int64_t type, const char* at) {
  switch (type) {
    case kFloat: return {DType::kFloat32, 4, kFloatField};
    case kInt32: return {DType::kInt32, 4, kIntField};
    case kUint8:
    case kInt8: return {DType::kInt32, 1, kIntField};
    case kInt16:
    case kUint16: return {DType::kInt32, 2, kIntField};
    case kBool: return {DType::kInt32, 1, kBoolField};
    case kInt64: return {DType::kInt64, 8, kInt64Field};
    case kString: return {DType::kBytes, 0, kStringField};
    default:
      throw Malformed{fmt::format("a tensor of TensorFlow's type {}, which no column has; types are float, string, "
                                  "bool and integers but uint32 and uint64",
                                  type),
                      at};
  }
}

// Adds the dimensions that a TensorShapeProto has.
void read_shape(std::string_view message, Shape& shape) {
  Wire wire(message, 1);
  while (!wire.done()) {
    const char* begin = wire.at();
    const uint32_t field_tag = wire.read_tag();
    if (field_tag == tag(3, kVarint)) {
      if (wire.varint() != 0) throw Malformed{"a tensor of unknown rank", begin};
      continue;
    }
    if (field_tag != tag(2, kDelimited)) {
      wire.skip(field_tag);
      continue;
    }
    Wire dimension(wire.delimited(), 2);
    int64_t size = 0;
    while (!dimension.done()) {
      const uint32_t dimension_tag = dimension.read_tag();
      if (dimension_tag == tag(1, kVarint)) {
        size = static_cast<int64_t>(dimension.varint());
      } else {
        dimension.skip(dimension_tag);
      }
    }
    if (size < 0) throw Malformed{fmt::format("a dimension of size {}", size), begin};
    // TensorFlow's limit.
    if (shape.size() == 254) throw Malformed{"more than 254 dimensions", begin};
    shape.push_back(size);
  }
}

int64_t checked_product(const Shape& shape, const char* at) {
  int64_t product = 1;
  // A size of 0 makes it 0 whatever the others are.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (const int64_t size : shape) {
    if (product > std::numeric_limits<int64_t>::max() / 16 / size) {
      throw Malformed{fmt::format("the shape {} is too large", to_string(shape)), at};
    }
    product *= size;
  }
  return product;
}

// Where a run of fields begins that lists values one by one: its bytes are those of one field's value.
int64_t count_values(std::string_view run, DType dtype) {
  if (dtype == DType::kBytes) return 1;
  if (dtype == DType::kFloat32) return static_cast<int64_t>(run.size() / sizeof(float));
  return std::count_if(run.begin(), run.end(), [](char byte) { return static_cast<uint8_t>(byte) < 0x80; });
}

}  // namespace

TensorMessage TensorMessage::read(std::string_view bytes) {
  TensorMessage tensor;
  try {
    // The type decides which field counts, and may come last.
    std::vector<std::pair<uint32_t, std::string_view>> lists;
    Wire wire(bytes, 0);
    while (!wire.done()) {
      const uint32_t field_tag = wire.read_tag();
      const uint32_t field = field_tag >> 3;
      const bool is_list = field == kFloatField || field == kIntField || field == kStringField ||
                           field == kInt64Field || field == kBoolField;
      if (field_tag == tag(kTypeField, kVarint)) {
        tensor.type_ = static_cast<int64_t>(wire.varint());
      } else if (field_tag == tag(kShapeField, kDelimited)) {
        read_shape(wire.delimited(), tensor.shape_);
      } else if (field_tag == tag(kContentField, kDelimited)) {
        tensor.content_ = wire.delimited();
      } else if (is_list && (field_tag & 7) == kDelimited) {
        lists.emplace_back(field, wire.delimited());
      } else if (is_list && field != kStringField && (field_tag & 7) == (field == kFloatField ? kFixed32 : kVarint)) {
        const char* begin = wire.at();
        wire.skip(field_tag);
        lists.emplace_back(field, std::string_view(begin, static_cast<size_t>(wire.at() - begin)));
      } else {
        wire.skip(field_tag);
      }
    }
    const TypeTraits traits = traits_of(tensor.type_, bytes.data());
    tensor.dtype_ = traits.dtype;
    tensor.num_values_ = checked_product(tensor.shape_, bytes.data());
    const auto count = static_cast<uint64_t>(tensor.num_values_);
    if (!tensor.content_.empty()) {
      tensor.num_stored_ = tensor.num_values_;
      const bool fits =
          traits.size == 0 ? tensor.content_.size() >= count : tensor.content_.size() == count * traits.size;
      if (!fits) {
        throw Malformed{
            fmt::format("a content of {} bytes for the shape {}", tensor.content_.size(), to_string(tensor.shape_)),
            tensor.content_.data()};
      }
    } else {
      for (const auto& [field, run] : lists) {
        if (field != traits.field) continue;
        if (field == kFloatField && run.size() % sizeof(float) != 0) {
          throw Malformed{fmt::format("a packed float list of {} bytes", run.size()), run.data()};
        }
        tensor.fields_.push_back(run);
        tensor.num_stored_ += count_values(run, traits.dtype);
      }
    }
  } catch (const Malformed& malformed) {
    Error error = malformed.to_error(bytes, nullptr);
    if (const size_t at = error.message.rfind(" of the record"); at != std::string::npos) {
      error.message.replace(at, std::string::npos, " of the tensor");
    }
    throw ErrorException(std::move(error));
  }
  return tensor;
}

template <typename T>
void TensorMessage::copy_fields(T* values) const {
  int64_t count = 0;
  T last{};
  for (const std::string_view run : fields_) {
    Wire wire(run, 1);
    while (!wire.done() && count < num_values_) {
      if constexpr (std::is_same_v<T, float>) {
        std::memcpy(&last, wire.at(), sizeof(float));
        wire.skip(tag(1, kFixed32));
      } else {
        // The low bits, as every protobuf reads an int32 or bool.
        const uint64_t value = wire.varint();
        last = static_cast<T>(type_ == kBool ? static_cast<uint64_t>(value != 0) : value);
        if (type_ == kUint8) last = static_cast<T>(static_cast<uint8_t>(value));
        // NOLINTNEXTLINE(bugprone-signed-char-misuse): a number of 8 bits, no character
        if (type_ == kInt8) last = static_cast<T>(static_cast<int8_t>(value));
        if (type_ == kUint16) last = static_cast<T>(static_cast<uint16_t>(value));
        if (type_ == kInt16) last = static_cast<T>(static_cast<int16_t>(value));
      }
      values[count++] = last;
    }
  }
  std::fill(values + count, values + num_values_, last);
}

template <typename Stored>
void TensorMessage::copy_small(int32_t* values) const {
  for (int64_t i = 0; i < num_values_; ++i) {
    Stored value;
    std::memcpy(&value, content_.data() + static_cast<size_t>(i) * sizeof(Stored), sizeof(Stored));
    values[i] = static_cast<int32_t>(value);  // NOLINT(bugprone-signed-char-misuse): no character
  }
}

void TensorMessage::copy_strings(std::string_view* values) const {
  if (content_.empty()) {
    const auto count = std::min(num_values_, static_cast<int64_t>(fields_.size()));
    std::copy_n(fields_.begin(), count, values);
    std::fill(values + count, values + num_values_, count == 0 ? std::string_view() : fields_.back());
    return;
  }
  // All lengths, then all strings.
  Wire lengths(content_, 1);
  std::vector<uint64_t> sizes;
  sizes.reserve(static_cast<size_t>(num_values_));
  for (int64_t i = 0; i < num_values_; ++i) sizes.push_back(lengths.varint());
  const char* at = lengths.at();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > static_cast<uint64_t>(lengths.end() - at)) throw Malformed{"a string is cut off", at};
    values[i] = {at, static_cast<size_t>(sizes[i])};
    at += sizes[i];
  }
  if (at != lengths.end()) throw Malformed{"bytes behind the last string", at};
}

void TensorMessage::copy_to(std::byte* values) const {
  static_assert(std::endian::native == std::endian::little, "tensors are stored little-endian");
  if (num_values_ == 0) return;
  try {
    if (dtype_ == DType::kBytes) return copy_strings(reinterpret_cast<std::string_view*>(values));
    if (content_.empty()) {
      switch (dtype_) {
        case DType::kFloat32: return copy_fields(reinterpret_cast<float*>(values));
        case DType::kInt64: return copy_fields(reinterpret_cast<int64_t*>(values));
        default: return copy_fields(reinterpret_cast<int32_t*>(values));
      }
    }
    auto* const ints = reinterpret_cast<int32_t*>(values);
    switch (type_) {
      case kUint8:
      case kBool: return copy_small<uint8_t>(ints);
      case kInt8: return copy_small<int8_t>(ints);
      case kUint16: return copy_small<uint16_t>(ints);
      case kInt16: return copy_small<int16_t>(ints);
      default: std::memcpy(values, content_.data(), content_.size());
    }
  } catch (const Malformed& malformed) {
    throw ErrorException(ErrorCode::kParse, malformed.what);
  }
}

}  // namespace millrace
