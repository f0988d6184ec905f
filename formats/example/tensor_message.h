#pragma once

#include <cstdint>
#include <string_view>

#include "millrace/formats/columnar/counted_allocator.h"
#include "millrace/formats/columnar/schema.h"

namespace millrace {

/// A serialized `tensorflow.TensorProto` (tensorflow/core/framework/tensor.proto): type, shape, and where the values
/// are. Views point into the message.
///
///     const TensorMessage tensor = TensorMessage::read(bytes, pool);
///     std::vector<float> values(tensor.num_values());
///     if (tensor.fits(DType::kFloat32)) tensor.copy_to(DType::kFloat32, reinterpret_cast<std::byte*>(values.data()));
class TensorMessage {
 public:
  /// Throws ErrorException with `kParse`: bytes that are no such message, a type that no column has (see `dtype`), an
  /// unknown rank, content of another size than type and shape need. Values are not looked at yet.
  /// `pool`, which must outlive it: for the places of values that are listed one by one.
  [[nodiscard]] static TensorMessage read(std::string_view bytes, BufferPool& pool);

  /// TensorFlow's name of the type: `float32`, `float64`, `uint8`, `bfloat16`; of strings `bytes`.
  std::string_view type_name() const;
  /// Whether `copy_to` gives values of this type: floating-point numbers as float32, integers and bools as int32,
  /// int64 and uint8, strings as bytes.
  bool fits(DType dtype) const;
  const Shape& shape() const { return shape_; }
  int64_t num_values() const { return num_values_; }
  /// How many values the message itself has. What follows them up to `num_values()` is the last one again, or zeros
  /// where there are none, as in TensorFlow: a small message may stand for a large tensor.
  int64_t num_stored() const { return num_stored_; }
  /// Of strings the last one that the message has, which stands for those that it does not have. Empty where it has
  /// none and of other types.
  std::string_view last_string() const;

  /// Writes `num_values()` values of a type that fits; bytes are std::string_views. float64 is rounded to the nearest
  /// float32, everything else is exact. Throws ErrorException with `kParse`, also for an integer that the type cannot
  /// hold and a finite float64 beyond all float32.
  void copy_to(DType dtype, std::byte* values) const;

 private:
  explicit TensorMessage(BufferPool& pool) : fields_(CountedAllocator<std::string_view>(pool)) {}
  template <typename Stored, typename To>
  void copy_numbers(To* values) const;
  template <typename To>
  void copy_integers(To* values) const;
  void copy_strings(std::string_view* values) const;

  int64_t type_ = 0;  // tensorflow.DataType
  Shape shape_;
  int64_t num_values_ = 1;
  int64_t num_stored_ = 0;
  std::string_view content_;                // all values as they lie in memory, of strings their lengths first
  CountedVector<std::string_view> fields_;  // runs of the list of this type's values: packed, or one alone
};

}  // namespace millrace
