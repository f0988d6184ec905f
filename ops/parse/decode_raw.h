#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "millrace/ops/format_arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// How one number lies in bytes: the types of `tf.io.decode_raw` without the complex ones.
enum class RawType {
  kUint8,  ///< comes as int32, as all smaller ones; with `dtype` as uint8
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

constexpr auto names_of(const RawType*) {
  return enum_names("RawType", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "FLOAT32", "FLOAT64", "FLOAT16",
                    "BFLOAT16", "BOOL");
}

struct DecodeRawOptions {
  std::optional<Shape> shape = {};  ///< of an element's numbers, of which there must be as many. Default: none, [?]
  bool little_endian = true;        ///< the byte order. Default: true
  /// Of what comes out: uint8 or int32 of `kUint8`. Default: none, as `RawType` says
  std::optional<DType> dtype = {};

  static constexpr auto fields() {
    using A = DecodeRawOptions;
    return describe<A>("DecodeRawOptions", field::stream<&A::shape>.as_shape(), field::stream<&A::little_endian>,
                       field::stream<&A::dtype>);
  }
};

/// Reads the bytes of a feature as numbers.
///
///     pixels bytes []  ->  decode_raw("pixels", RawType::kUint8, {.shape = {{28, 28}}})  ->  pixels int32 [28,28]
///                      ->  decode_raw("pixels", RawType::kUint8, {.dtype = kUint8})      ->  pixels uint8 [?]
///
/// Bytes that are no whole number of numbers, or another number of them than the shape has, are the element's error,
/// and so is a finite float64 beyond float32.
class DecodeRawOperator final : public MapOperator {
 public:
  /// `feature`: one `bytes` value per element. Throws `kInvalidArgument` for a feature, shape or dtype that cannot be.
  DecodeRawOperator(const SchemaPtr& input, const std::string& feature, RawType type,
                    const DecodeRawOptions& options = {});
  std::string_view name() const override { return "decode_raw"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .uses_row_numbers = false}; }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  size_t column_;
  RawType type_;
  DecodeRawOptions options_;
};

/// What `Dataset::decode_raw` is called with.
struct DecodeRawArguments {
  std::string feature = {};
  RawType type = RawType::kUint8;
  DecodeRawOptions options = {};

  static constexpr auto fields() {
    using A = DecodeRawArguments;
    return describe<A>("decode_raw", field::required<&A::feature>, field::required<&A::type>,
                       field::inlined<&A::options>);
  }
};

}  // namespace millrace
