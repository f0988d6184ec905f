#include "millrace/formats/example/tensor_message.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/example/stored_number.h"
#include "millrace/formats/example/wire.h"

namespace millrace {
namespace {

using namespace wire;

// tensorflow.DataType, as far as columns can hold it.
enum TensorFlowType : int64_t {
  kFloat = 1,
  kDouble = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kString = 7,
  kInt64 = 9,
  kBool = 10,
  kBfloat16 = 14,
  kUint16 = 17,
  kHalf = 19,
  kUint32 = 22,
  kUint64 = 23,
};

// The fields of TensorProto.
constexpr uint32_t kTypeField = 1;
constexpr uint32_t kShapeField = 2;
constexpr uint32_t kContentField = 4;

// How the value of a list lies in the message, one by one.
enum class ListOf { kFixed32s, kFixed64s, kVarints, kStrings };

// The fields that list values.
struct ListField {
  uint32_t field;
  ListOf of;
};
constexpr ListField kFloats{5, ListOf::kFixed32s};
constexpr ListField kDoubles{6, ListOf::kFixed64s};
constexpr ListField kInts{7, ListOf::kVarints};  // of 32 bits and fewer
constexpr ListField kStrings{8, ListOf::kStrings};
constexpr ListField kInt64s{10, ListOf::kVarints};
constexpr ListField kBools{11, ListOf::kVarints};
constexpr ListField kHalves{13, ListOf::kVarints};  // bits of either type of 16 bits
constexpr ListField kUint32s{16, ListOf::kVarints};
constexpr ListField kUint64s{17, ListOf::kVarints};
constexpr std::array kListFields{kFloats, kDoubles, kInts, kStrings, kInt64s, kBools, kHalves, kUint32s, kUint64s};

struct TypeTraits {
  TensorFlowType type;
  std::string_view name;
  DType dtype;     // that holds it, of integers the narrowest
  size_t size;     // of a value in the content; of strings 0
  ListField list;  // of the values
};
constexpr std::array kTypes{
    TypeTraits{kFloat, "float32", DType::kFloat32, 4, kFloats},
    TypeTraits{kDouble, "float64", DType::kFloat32, 8, kDoubles},
    TypeTraits{kInt32, "int32", DType::kInt32, 4, kInts},
    TypeTraits{kUint8, "uint8", DType::kInt32, 1, kInts},
    TypeTraits{kInt16, "int16", DType::kInt32, 2, kInts},
    TypeTraits{kInt8, "int8", DType::kInt32, 1, kInts},
    TypeTraits{kString, "bytes", DType::kBytes, 0, kStrings},
    TypeTraits{kInt64, "int64", DType::kInt64, 8, kInt64s},
    TypeTraits{kBool, "bool", DType::kInt32, 1, kBools},
    TypeTraits{kBfloat16, "bfloat16", DType::kFloat32, 2, kHalves},
    TypeTraits{kUint16, "uint16", DType::kInt32, 2, kInts},
    TypeTraits{kHalf, "float16", DType::kFloat32, 2, kHalves},
    TypeTraits{kUint32, "uint32", DType::kInt64, 4, kUint32s},
    TypeTraits{kUint64, "uint64", DType::kInt64, 8, kUint64s},
};

const TypeTraits& traits_of(int64_t type, const char* at) {
  const auto* const found =
      std::find_if(kTypes.begin(), kTypes.end(), [type](const TypeTraits& traits) { return traits.type == type; });
  if (found == kTypes.end()) {
    throw Malformed{fmt::format("a tensor of TensorFlow's type {}, which no column has; types are strings, bools, "
                                "integers of 8 to 64 bits, float16, bfloat16, float32 and float64",
                                type),
                    at};
  }
  return *found;
}

const TypeTraits& traits_of(int64_t type) { return traits_of(type, nullptr); }

template <typename To, typename Stored>
To converted(Stored stored) {
  const auto value = number_of(stored);
  using From = std::remove_const_t<decltype(value)>;
  if constexpr (std::is_same_v<From, double>) {
    if (is_beyond_float32(value)) {
      throw Malformed{fmt::format("the value {} is beyond float32", value), nullptr};
    }
  } else if constexpr (std::is_integral_v<From>) {
    if (!std::in_range<To>(value)) {
      throw Malformed{fmt::format("the value {} does not fit in {}", value, to_string(DTypeOf<To>::value)), nullptr};
    }
  }
  return static_cast<To>(value);
}

// One value out of a list.
template <typename Stored>
Stored read_one(Wire& wire) {
  Stored value;
  if constexpr (std::is_floating_point_v<Stored>) {
    const char* begin = wire.at();
    wire.skip(tag(1, sizeof(Stored) == sizeof(float) ? kFixed32 : kFixed64));
    std::memcpy(&value, begin, sizeof(Stored));
  } else if constexpr (std::is_same_v<Stored, Bool>) {
    value.byte = wire.varint() != 0 ? 1 : 0;
  } else {
    // The low bits, as every protobuf reads an int32, and TensorFlow what is narrower.
    const uint64_t bits = wire.varint();
    std::memcpy(&value, &bits, sizeof(Stored));
  }
  return value;
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
int64_t count_values(std::string_view run, ListOf of) {
  if (of == ListOf::kStrings) return 1;
  if (of == ListOf::kFixed32s) return static_cast<int64_t>(run.size() / sizeof(float));
  if (of == ListOf::kFixed64s) return static_cast<int64_t>(run.size() / sizeof(double));
  return std::count_if(run.begin(), run.end(), [](char byte) { return static_cast<uint8_t>(byte) < 0x80; });
}

uint32_t wire_type(ListOf of) {
  switch (of) {
    case ListOf::kFixed32s: return kFixed32;
    case ListOf::kFixed64s: return kFixed64;
    case ListOf::kVarints: return kVarint;
    case ListOf::kStrings: return kDelimited;
  }
  return kDelimited;
}

}  // namespace

TensorMessage TensorMessage::read(std::string_view bytes, BufferPool& pool) {
  TensorMessage tensor(pool);
  try {
    // The type decides which field counts, and may come last.
    using List = std::pair<uint32_t, std::string_view>;
    CountedVector<List> lists{CountedAllocator<List>(pool)};
    Wire wire(bytes, 0);
    while (!wire.done()) {
      const uint32_t field_tag = wire.read_tag();
      const uint32_t field = field_tag >> 3;
      const auto* const list = std::find_if(kListFields.begin(), kListFields.end(),
                                            [field](const ListField& one) { return one.field == field; });
      const bool is_list = list != kListFields.end();
      if (field_tag == tag(kTypeField, kVarint)) {
        tensor.type_ = static_cast<int64_t>(wire.varint());
      } else if (field_tag == tag(kShapeField, kDelimited)) {
        tensor.shape_.reserve(4);  // of most tensors, in one piece
        read_shape(wire.delimited(), tensor.shape_);
      } else if (field_tag == tag(kContentField, kDelimited)) {
        tensor.content_ = wire.delimited();
      } else if (is_list && (field_tag & 7) == kDelimited) {
        lists.emplace_back(field, wire.delimited());
      } else if (is_list && (field_tag & 7) == wire_type(list->of)) {
        const char* begin = wire.at();
        wire.skip(field_tag);
        lists.emplace_back(field, std::string_view(begin, static_cast<size_t>(wire.at() - begin)));
      } else {
        wire.skip(field_tag);
      }
    }
    const TypeTraits& traits = traits_of(tensor.type_, bytes.data());
    tensor.num_values_ = checked_product(tensor.shape_, bytes.data());
    const auto count = static_cast<uint64_t>(tensor.num_values_);
    if (count == 0) tensor.content_ = {};  // which TensorFlow does not look at either
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
        const ListOf of = traits.list.of;
        if (field != traits.list.field) continue;
        if ((of == ListOf::kFixed32s || of == ListOf::kFixed64s) && run.size() % traits.size != 0) {
          throw Malformed{fmt::format("a packed list of {} of {} bytes", traits.name, run.size()), run.data()};
        }
        tensor.fields_.push_back(run);
        tensor.num_stored_ += count_values(run, of);
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

std::string_view TensorMessage::type_name() const { return traits_of(type_).name; }

std::string_view TensorMessage::last_string() const {
  return type_ == kString && !fields_.empty() ? fields_.back() : std::string_view();
}

bool TensorMessage::fits(DType dtype) const {
  const DType holds = traits_of(type_).dtype;
  return dtype == holds || (is_integer(dtype) && is_integer(holds));
}

template <typename Stored, typename To>
void TensorMessage::copy_numbers(To* values) const {
  if (!content_.empty()) {
    if constexpr (std::is_same_v<Stored, To>) {
      std::memcpy(values, content_.data(), content_.size());
    } else {
      for (int64_t i = 0; i < num_values_; ++i) {
        Stored stored;
        std::memcpy(&stored, content_.data() + static_cast<size_t>(i) * sizeof(Stored), sizeof(Stored));
        values[i] = converted<To>(stored);
      }
    }
    return;
  }
  int64_t count = 0;
  To last{};
  for (const std::string_view run : fields_) {
    Wire wire(run, 1);
    while (!wire.done() && count < num_values_) {
      last = converted<To>(read_one<Stored>(wire));
      values[count++] = last;
    }
  }
  std::fill(values + count, values + num_values_, last);
}

template <typename To>
void TensorMessage::copy_integers(To* values) const {
  switch (type_) {
    case kInt32: return copy_numbers<int32_t>(values);
    case kUint8: return copy_numbers<uint8_t>(values);
    case kInt16: return copy_numbers<int16_t>(values);
    case kInt8: return copy_numbers<int8_t>(values);
    case kInt64: return copy_numbers<int64_t>(values);
    case kBool: return copy_numbers<Bool>(values);
    case kUint16: return copy_numbers<uint16_t>(values);
    case kUint32: return copy_numbers<uint32_t>(values);
    default: return copy_numbers<uint64_t>(values);
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
  for (int64_t i = 0; i < num_values_; ++i) lengths.varint();
  const char* at = lengths.at();
  Wire again(content_, 1);
  for (int64_t i = 0; i < num_values_; ++i) {
    const uint64_t size = again.varint();
    if (size > static_cast<uint64_t>(lengths.end() - at)) throw Malformed{"a string is cut off", at};
    values[i] = {at, static_cast<size_t>(size)};
    at += size;
  }
  if (at != lengths.end()) throw Malformed{"bytes after the last string", at};
}

void TensorMessage::copy_to(DType dtype, std::byte* values) const {
  static_assert(std::endian::native == std::endian::little, "tensors are stored little-endian");
  assert(fits(dtype));
  if (num_values_ == 0) return;
  try {
    auto* const floats = reinterpret_cast<float*>(values);
    switch (dtype) {
      case DType::kInt32: return copy_integers(reinterpret_cast<int32_t*>(values));
      case DType::kInt64: return copy_integers(reinterpret_cast<int64_t*>(values));
      case DType::kBytes: return copy_strings(reinterpret_cast<std::string_view*>(values));
      case DType::kUint8: return copy_integers(reinterpret_cast<uint8_t*>(values));
      case DType::kFloat32: break;
    }
    switch (type_) {
      case kDouble: return copy_numbers<double>(floats);
      case kHalf: return copy_numbers<Half>(floats);
      case kBfloat16: return copy_numbers<Bfloat16>(floats);
      default: return copy_numbers<float>(floats);
    }
  } catch (const Malformed& malformed) {
    throw ErrorException(ErrorCode::kParse, malformed.what);
  }
}

}  // namespace millrace
