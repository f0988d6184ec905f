#pragma once

#include <optional>
#include <string>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// Where an image stands among what is padded.
enum class PadKind : uint8_t {
  kCentre,   ///< half of the padding (rounded down) before it, as in tf.image.resize_with_crop_or_pad
  kTopLeft,  ///< all padding below it and at its right
};

constexpr auto names_of(const PadKind*) { return enum_names("PadKind", "CENTRE", "TOP_LEFT"); }

struct PadOptions {
  std::string feature = "image";    ///< uint8, int32 or float32 images. Default: image
  int64_t height = 0;               ///< of the result. No default
  int64_t width = 0;                ///< of the result. No default
  double value = 0;                 ///< of all channels of the padding; the dtype must hold it. Default: 0
  PadKind kind = PadKind::kCentre;  ///< Default: kCentre

  static constexpr auto fields() {
    using A = PadOptions;
    return describe<A>("PadOptions", field::stream<&A::feature>, field::required<&A::height>,
                       field::required<&A::width>, field::stream<&A::value>, field::stream<&A::kind>);
  }
};

/// Pads images to a size; the dtype stays. `padded_batch` pads vectors instead, to the longest of a batch.
///
///     {.height = 2, .width = 4}, in the centre
///     image=[[[1],[2]]]  ->  image=[[[0],[1],[2],[0]],[[0],[0],[0],[0]]]
///
/// Images are [height,width,channels] and may differ in size; in batches [rows,height,width,channels], with the same
/// result. A larger image makes its element the error `wrong_shape`; one without pixels becomes all padding.
class PadOperator final : public MapOperator {
 public:
  /// Throws `kInvalidArgument` for a feature that is no images or larger by its shape, sizes out of range, and a value
  /// that the dtype cannot hold.
  PadOperator(const SchemaPtr& input, const PadOptions& options);
  std::string_view name() const override { return "pad"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .uses_row_numbers = false}; }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  PadOptions options_;
  size_t column_;
};

/// What `Dataset::pad` is called with.
struct PadArguments {
  PadOptions options = {};

  static constexpr auto fields() { return describe<PadArguments>("pad", field::inlined<&PadArguments::options>); }
};

}  // namespace millrace
