#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/columnar/schema.h"

namespace millrace {

/// A serialized `tensorflow.TensorProto` (tensorflow/core/framework/tensor.proto): type, shape, and where the values
/// are. Views point into the message.
///
///     const TensorMessage tensor = TensorMessage::read(bytes);
///     std::vector<float> values(tensor.num_values());
///     tensor.copy_to(reinterpret_cast<std::byte*>(values.data()));
class TensorMessage {
 public:
  /// Throws ErrorException with `kParse`: bytes that are no such message, a type that no column has (see `dtype`), an
  /// unknown rank, content of another size than type and shape need. Values are not looked at yet.
  [[nodiscard]] static TensorMessage read(std::string_view bytes);

  /// The type of a column that holds the values exactly: float32; int64; bytes for DT_STRING; int32 for DT_INT32, the
  /// smaller integers and DT_BOOL.
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t num_values() const { return num_values_; }
  /// How many values the message itself has. What follows them up to `num_values()` is the last one again, or zeros
  /// where there are none, as in TensorFlow: a small message may stand for a large tensor.
  int64_t num_stored() const { return num_stored_; }

  /// Writes `num_values()` values of type `dtype()`; bytes are std::string_views. Throws ErrorException with `kParse`.
  void copy_to(std::byte* values) const;

 private:
  template <typename T>
  void copy_fields(T* values) const;
  template <typename Stored>
  void copy_small(int32_t* values) const;
  void copy_strings(std::string_view* values) const;

  int64_t type_ = 0;  // tensorflow.DataType
  DType dtype_ = DType::kFloat32;
  Shape shape_;
  int64_t num_values_ = 1;
  int64_t num_stored_ = 0;
  std::string_view content_;              // all values as they lie in memory, of strings their lengths first
  std::vector<std::string_view> fields_;  // runs of the list of this type's values: packed, or one alone
};

}  // namespace millrace
