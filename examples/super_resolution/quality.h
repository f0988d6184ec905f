#pragma once

#include <cstdint>
#include <vector>

#include "examples/super_resolution/rgb_image.h"

namespace millrace {

class Vgg;

/// Pixels at each border that figures leave out, as is usual for images that were made 4 times larger.
inline constexpr int64_t kQualityBorder = 4;

/// How good an image is that was made of a smaller one, by the field's protocol: of 8 bit values, without the border.
struct ImageQuality {
  double psnr_rgb = 0;  ///< dB; infinite for the original
  /// Of the luma of BT.601 as MATLAB's rgb2ycbcr has it, 16 + (65.481 R + 128.553 G + 24.966 B) / 255, not rounded,
  /// with a peak of 255.
  double psnr_y = 0;
  double gradient = 0;  ///< the mean magnitude of the luma's gradient, by forward differences: how sharp it is
};

/// Of images of one size. Throws `kWrongShape` where they are not, and where nothing is left within the border.
[[nodiscard]] ImageQuality quality_of(const RgbImage<uint8_t>& image, const RgbImage<uint8_t>& original);

/// How far each image is from the first in the features of a frozen network: the mean absolute difference of what its
/// last convolution gives, before the relu, over parts of 128 to 255 pixels a side, each by itself. Memory: a part for
/// each thread. Throws as `Vgg::maps`.
[[nodiscard]] std::vector<double> feature_distances(const std::vector<RgbImage<uint8_t>>& images, const Vgg& network,
                                                    int threads);

}  // namespace millrace
