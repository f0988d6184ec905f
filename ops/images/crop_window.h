#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "millrace/formats/image/image.h"
#include "millrace/formats/random/counter_rng.h"
#include "millrace/ops/format_arguments.h"

namespace millrace {

/// Which part of an image is kept.
enum class CropKind : uint8_t {
  kCentre,  ///< of a fixed size, half of the rest (rounded down) before it, as in tf.image.resize_with_crop_or_pad
  kRandom,  ///< of a fixed size, each place equally often, as torchvision's RandomCrop and tf.image.random_crop
  kRandomResized,  ///< of random size, ratio and place, as torchvision's RandomResizedCrop before it resizes
};

constexpr auto names_of(const CropKind*) { return enum_names("CropKind", "CENTRE", "RANDOM", "RANDOM_RESIZED"); }

/// Which part of images to keep: of `crop`, and of what decodes no more than that.
struct ImageCrop {
  CropKind kind = CropKind::kCentre;           ///< Default: kCentre
  std::optional<int64_t> height = {};          ///< of `kCentre` and `kRandom`, which need it. Default: none
  std::optional<int64_t> width = {};           ///< of `kCentre` and `kRandom`, which need it. Default: none
  std::pair<double, double> area = {0.08, 1};  ///< of `kRandomResized`, as a share of the image's. Default: 0.08 to 1
  /// Of `kRandomResized`: width over height, whose logarithm is uniform. Default: 3/4 to 4/3
  std::pair<double, double> ratio = {3.0 / 4, 4.0 / 3};
  /// Of `kRandomResized`: how often area and ratio are drawn until the window fits; then it is the largest one in the
  /// centre with a ratio in the range. Default: 10
  int64_t attempts = 10;

  static constexpr auto fields() {
    using A = ImageCrop;
    return describe<A>("ImageCrop", field::stream<&A::kind>, field::stream<&A::height>, field::stream<&A::width>,
                       field::stream<&A::area>, field::stream<&A::ratio>, field::stream<&A::attempts>);
  }
};

/// Where the window lies that an `ImageCrop` keeps.
///
/// Draws, which states rely on. `kRandom`: of draw 0 of a row words 0 and 1 are the place from the top, words 2 and 3
/// that from the left. `kRandomResized`: of draw k word 0 is the area of attempt k, word 1 its ratio, word 2 the place
/// from the top and word 3 that from the left. Ratios are multiples of 2^-24, and all else is computed with operations
/// that IEEE 754 defines, so windows are the same with other mathematical libraries.
class CropWindow {
 public:
  /// Throws `kInvalidArgument` naming `method`: sizes that are missing, out of range or of no use to the kind, and
  /// areas, ratios and attempts that cannot be.
  CropWindow(const ImageCrop& crop, std::string_view method);

  /// Whether something is drawn.
  bool is_random() const { return crop_.kind != CropKind::kCentre; }
  /// The size of all windows; none where they differ.
  std::optional<std::pair<int64_t, int64_t>> fixed_size() const;
  /// Why an image of this size has no window: it is smaller. Empty where it has one.
  [[nodiscard]] std::string why_not(int64_t height, int64_t width) const;
  /// The window in an image of this size that has one: `height` and `width` of at least 1, or 0, of which
  /// `kRandomResized` gives all. `row`: the number of the row (ops/row_number.h).
  [[nodiscard]] ImageRegion window(int64_t height, int64_t width, const CounterRng& rng, uint64_t row) const;

 private:
  ImageRegion random_resized(int64_t height, int64_t width, const CounterRng& rng, uint64_t row) const;

  ImageCrop crop_;
  double low_log_ratio_ = 0;
  double high_log_ratio_ = 0;
};

}  // namespace millrace
