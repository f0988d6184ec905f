#pragma once

#include <optional>
#include <string>

#include "millrace/ops/arguments.h"
#include "millrace/ops/images/resize_axis.h"
#include "millrace/ops/operator.h"

namespace millrace {

struct ResizeOptions {
  std::string feature = "image";       ///< uint8, int32 or float32 images. Default: image
  std::optional<int64_t> height = {};  ///< of the result, together with `width`. Default: none
  std::optional<int64_t> width = {};   ///< of the result, together with `height`. Default: none
  /// Instead of both: the shorter side of the result, with the ratio of the sides kept; the longer one is the integer
  /// part of `shorter_side * longer / shorter`, as in torchvision's Resize(int). Default: none
  std::optional<int64_t> shorter_side = {};
  /// Instead of these: the longer side of the result, the shorter one as above and at least 1. A `pad` to a square
  /// after it makes a letterbox. Default: none
  std::optional<int64_t> longer_side = {};
  ResizeMethod method = ResizeMethod::kBilinear;  ///< Default: kBilinear
  /// Bilinear and bicubic: where an image becomes smaller the kernel is as much wider, so that no pixel is passed over;
  /// of no effect with the other methods. Default: false, as in tf.image.resize
  bool antialias = false;
  /// Values are rounded, halves to even, and cut to what the images' dtype holds, which stays: uint8 stays uint8, as
  /// with torchvision and Pillow. Computed in float32: int32 beyond 2^24 loses its last bits. Default: false, float32
  bool keep_dtype = false;

  static constexpr auto fields() {
    using A = ResizeOptions;
    return describe<A>("ResizeOptions", field::stream<&A::feature>, field::stream<&A::height>, field::stream<&A::width>,
                       field::stream<&A::shorter_side>, field::stream<&A::longer_side>, field::stream<&A::method>,
                       field::stream<&A::antialias>, field::stream<&A::keep_dtype>);
  }
};

/// Gives images another size, as tf.image.resize of TensorFlow 2 does (half-pixel centres): the same values with
/// `kNearest`, and to about 1e-6 of the largest value with the other methods.
///
///     {.height = 1, .width = 2}
///     image uint8 [[[1],[3],[5],[7]]]  ->  image float32 [[[2],[6]]]
///
/// Images are [height,width,channels] and may differ in size; in batches [rows,height,width,channels], with the same
/// result. `kNearest` keeps the dtype, the other methods give float32, not rounded, but with `keep_dtype`; values of
/// uint8 images stay from 0 to 255 (bicubic may go beyond). An image with a side of 0, or one whose longer side would
/// have more than 65,536 pixels, makes its element the error `wrong_shape`.
class ResizeOperator final : public MapOperator {
 public:
  /// Throws `kInvalidArgument` for a feature that is no images, sizes out of range, and unless either `height` and
  /// `width`, or `shorter_side`, or `longer_side` is given.
  ResizeOperator(const SchemaPtr& input, const ResizeOptions& options);
  std::string_view name() const override { return "resize"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .uses_row_numbers = false}; }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  ResizeOptions options_;
  size_t column_;
};

/// What `Dataset::resize` is called with.
struct ResizeArguments {
  ResizeOptions options = {};

  static constexpr auto fields() {
    return describe<ResizeArguments>("resize", field::inlined<&ResizeArguments::options>);
  }
};

}  // namespace millrace
