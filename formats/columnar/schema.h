#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {

/// The type of one value. Files name them by these numbers.
enum class DType : uint8_t {
  kInt32,    ///< int32_t
  kInt64,    ///< int64_t
  kFloat32,  ///< float
  kBytes,    ///< a string of bytes of any length; in memory a std::string_view into a buffer that the column holds
  kUint8,    ///< uint8_t: pixels
};

constexpr DType kLastDType = DType::kUint8;

/// `int32`, `int64`, `float32`, `bytes`, `uint8`.
std::string_view to_string(DType dtype);

/// Bytes of one value in a values buffer; for `kBytes` those of its std::string_view.
constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kInt32: return sizeof(int32_t);
    case DType::kInt64: return sizeof(int64_t);
    case DType::kFloat32: return sizeof(float);
    case DType::kBytes: return sizeof(std::string_view);
    case DType::kUint8: return sizeof(uint8_t);
  }
  return 0;
}

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kInt64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<std::string_view> {
  static constexpr DType value = DType::kBytes;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kUint8;
};

/// Calls `call` with the type of a value: `call.template operator()<T>()`.
template <typename Call>
decltype(auto) visit_dtype(DType dtype, Call&& call) {
  switch (dtype) {
    case DType::kInt32: return call.template operator()<int32_t>();
    case DType::kInt64: return call.template operator()<int64_t>();
    case DType::kFloat32: return call.template operator()<float>();
    case DType::kBytes: return call.template operator()<std::string_view>();
    case DType::kUint8: break;
  }
  return call.template operator()<uint8_t>();
}

constexpr bool is_integer(DType dtype) { return dtype != DType::kFloat32 && dtype != DType::kBytes; }

/// Whether a value of an integer dtype can be this.
inline bool holds_integer(DType dtype, int64_t value) {
  return dtype == DType::kInt64 || (dtype == DType::kInt32 && std::in_range<int32_t>(value)) ||
         (dtype == DType::kUint8 && std::in_range<uint8_t>(value));
}

/// Sizes of a tensor's dimensions, outermost first; empty for a scalar.
using Shape = std::vector<int64_t>;

/// In a FeatureSpec: this dimension's size may differ from element to element.
constexpr int64_t kVaries = -1;

/// In a FeatureSpec: this dimension's size differs from row to row inside an element, as the lengths in a batch of
/// vectors that are not padded. Never the first dimension.
constexpr int64_t kRagged = -2;

/// `[128,512]`, `[]`, `[?,3]`, `[?,ragged]`.
std::string to_string(const Shape& shape);

/// The product of the sizes; `kVaries` when one of them varies or is ragged.
int64_t num_values(std::span<const int64_t> shape);

/// One feature of every element of a dataset.
struct FeatureSpec {
  std::string name = {};
  DType dtype = DType::kInt64;
  Shape shape = {};  ///< shape of one element's value; `kVaries`, `kRagged` where it differs. Default: scalar

  bool has_fixed_shape() const { return num_values(shape) != kVaries; }
  bool is_ragged() const {
    for (const int64_t size : shape) {
      if (size == kRagged) return true;
    }
    return false;
  }
  friend bool operator==(const FeatureSpec&, const FeatureSpec&) = default;
};

/// The most values that an element of a feature may have, in its dimensions whose sizes are known: 2^40.
constexpr int64_t kMostElementValues = int64_t{1} << 40;

/// The features of every element of a dataset, in column order.
class Schema {
 public:
  Schema() = default;
  /// Throws `kInvalidArgument` when a name is empty or occurs twice, or a shape has more than `kMostElementValues`.
  explicit Schema(std::vector<FeatureSpec> features);

  const std::vector<FeatureSpec>& features() const { return features_; }
  size_t size() const { return features_.size(); }
  const FeatureSpec& operator[](size_t column) const { return features_[column]; }
  /// The column of a feature, or -1.
  int find(std::string_view name) const;
  /// The column of a feature; throws `kInvalidArgument` that lists the names there are.
  int column(std::string_view name) const;
  /// `input_ids int32 [512], labels int32 [512]`.
  std::string to_string() const;
  friend bool operator==(const Schema&, const Schema&) = default;

 private:
  std::vector<FeatureSpec> features_;
};

using SchemaPtr = std::shared_ptr<const Schema>;

/// Bytes of an element's values, when that is the same for every element; 0 when a shape varies or a feature is
/// `bytes`.
int64_t fixed_bytes(const Schema& schema);

/// The least bytes that the values of an element take, without what `bytes` values point to: features whose shape
/// varies may have none. `rows`: where the outermost size varies it is this many, as in batches; 0: where it varies,
/// there may be none. At most INT64_MAX.
int64_t least_bytes(const Schema& schema, int64_t rows = 0);

}  // namespace millrace
