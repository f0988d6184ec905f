#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "millrace/formats/image/image.h"

namespace millrace {

/// The orientation in EXIF data (a TIFF structure; CIPA DC-008, "Orientation", tag 0x0112): 1 where it has none or is
/// no such data.
[[nodiscard]] int exif_orientation(std::string_view exif);

/// Whether upright rows are stored columns.
constexpr bool is_transposed(int orientation) { return orientation >= 5; }

/// Where a region of the upright picture of this size is stored.
[[nodiscard]] ImageRegion stored_region(const ImageRegion& upright, int64_t upright_height, int64_t upright_width,
                                        int orientation);

/// Writes the stored pixels, height × width × channels, upright.
void turn_pixels(std::span<const uint8_t> stored, int64_t height, int64_t width, int channels, int orientation,
                 std::span<uint8_t> upright);

}  // namespace millrace
