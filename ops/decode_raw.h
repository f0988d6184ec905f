#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ops/operator.h"

namespace millrace {

/// How one number lies in bytes: the types of `tf.io.decode_raw` without the complex ones.
enum class RawType {
  kUint8,  ///< comes as int32, as all smaller ones
  kInt8,
  kUint16,
  kInt16,
  kInt32,
  kInt64,    ///< as int64
  kFloat32,  ///< as float32
  kFloat64,  ///< as float32, rounded to the nearest
  kFloat16,
  kBfloat16,
  kBool,  ///< a byte: 0, or 1 for all others
};

struct DecodeRawOptions {
  std::optional<Shape> shape = {};  ///< of an element's numbers, of which there must be as many. Default: [?]
  bool little_endian = true;        ///< the byte order. Default: true
};

/// Reads the bytes of a feature as numbers.
///
///     pixels bytes []  ->  decode_raw("pixels", RawType::kUint8, {.shape = {{28, 28}}})  ->  pixels int32 [28,28]
///
/// Bytes that are no whole number of numbers, or another number of them than the shape has, are the element's error,
/// and so is a finite float64 beyond float32.
class DecodeRawOperator final : public MapOperator {
 public:
  /// `feature`: one `bytes` value per element.
  DecodeRawOperator(const SchemaPtr& input, const std::string& feature, RawType type,
                    const DecodeRawOptions& options = {});
  std::string_view name() const override { return "decode_raw"; }
  bool never_waits() const override { return true; }
  std::string arguments() const override;
  Block apply(Block block, BufferPool& pool) const override;
  bool uses_row_numbers() const override { return false; }

 private:
  size_t column_;
  RawType type_;
  DecodeRawOptions options_;
};

}  // namespace millrace
