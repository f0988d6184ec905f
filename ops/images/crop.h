#pragma once

#include <string>
#include <vector>

#include "millrace/ops/arguments.h"
#include "millrace/ops/images/crop_window.h"
#include "millrace/ops/operator.h"

namespace millrace {

struct CropOptions {
  std::vector<std::string> features = {};  ///< images of one size that are cropped alike. No default
  ImageCrop window = {};                   ///< the part that is kept. Default: that of its fields
  uint64_t seed = 0;                       ///< another seed, other windows. Default: 0

  static constexpr auto fields() {
    using A = CropOptions;
    return describe<A>("CropOptions", field::required<&A::features>, field::inlined<&A::window>,
                       field::stream<&A::seed>);
  }
};

/// Keeps a window of images: of all features of a row the same one, so that pairs stay pairs.
///
///     {.features = {"image"}, .window = {.kind = CropKind::kCentre, .height = 1, .width = 2}}
///     image=[[[1],[2],[3],[4]],[[5],[6],[7],[8]]]  ->  image=[[[2],[3]]]
///
/// Images are uint8, int32 or float32 [height,width,channels] and may differ in size from row to row; with `kCentre`
/// and `kRandom` also batches, [rows,height,width,channels], with the same result: what is drawn is a pure function of
/// seed, epoch and the row's number. An image that is smaller than the window, and features of one row whose sizes
/// differ, make the element the error `wrong_shape`. `resize` gives what `kRandomResized` keeps one size.
class CropOperator final : public MapOperator {
 public:
  /// `occurrence`: how many of these stand before it. Throws `kInvalidArgument` for features that are no images, named
  /// twice, or of other sizes by their shapes; for batches with `kRandomResized`; and for a window that cannot be.
  CropOperator(const SchemaPtr& input, CropOptions options, uint64_t occurrence = 0);
  std::string_view name() const override { return "crop"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .uses_row_numbers = window_.is_random()}; }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  // Makes an error of an element that cannot be cropped; false.
  bool check_element(Block& block, size_t element) const;

  CropOptions options_;
  CropWindow window_;
  std::vector<size_t> columns_;
  uint64_t occurrence_;
};

/// What `Dataset::crop` is called with.
struct CropArguments {
  CropOptions options = {};

  static constexpr auto fields() { return describe<CropArguments>("crop", field::inlined<&CropArguments::options>); }
};

}  // namespace millrace
