#include "millrace/formats/image/orientation.h"

#include <cstddef>
#include <cstring>
#include <utility>

namespace millrace {
namespace {

// EXIF data: a TIFF structure of either byte order.
class Tiff {
 public:
  explicit Tiff(std::string_view bytes) : bytes_(bytes), is_little_(bytes.starts_with("II")) {}

  bool has(uint64_t offset, uint64_t size) const { return offset <= bytes_.size() && size <= bytes_.size() - offset; }
  uint64_t number(uint64_t offset, int size) const {
    uint64_t number = 0;
    for (int i = 0; i < size; ++i) {
      const auto place = static_cast<size_t>(offset) + static_cast<size_t>(is_little_ ? size - 1 - i : i);
      number = number << 8 | static_cast<uint8_t>(bytes_[place]);
    }
    return number;
  }

 private:
  std::string_view bytes_;
  bool is_little_;
};

constexpr uint64_t kOrientationTag = 0x0112;
constexpr uint64_t kShortType = 3;
constexpr uint64_t kLongType = 4;
constexpr uint64_t kTiffHeaderBytes = 8;
constexpr uint64_t kTiffEntryBytes = 12;
constexpr uint64_t kTiffValueOffset = 8;  // in an entry

bool flips_rows(int orientation) {
  return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}
bool flips_columns(int orientation) {
  return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}

template <int kChannels>
void turn(const uint8_t* stored, int64_t height, int64_t width, int orientation, uint8_t* upright) {
  const bool transposed = is_transposed(orientation);
  // Steps of the upright picture for one stored row and column.
  int64_t row_step = transposed ? 1 : width;
  int64_t column_step = transposed ? height : 1;
  int64_t begin = 0;
  if (flips_rows(orientation)) {
    begin += (height - 1) * row_step;
    row_step = -row_step;
  }
  if (flips_columns(orientation)) {
    begin += (width - 1) * column_step;
    column_step = -column_step;
  }
  for (int64_t row = 0; row < height; ++row) {
    int64_t place = begin + row * row_step;
    for (int64_t column = 0; column < width; ++column, place += column_step, stored += kChannels) {
      std::memcpy(upright + place * kChannels, stored, kChannels);
    }
  }
}

}  // namespace

int exif_orientation(std::string_view exif) {
  if (!exif.starts_with(std::string_view("II*\0", 4)) && !exif.starts_with(std::string_view("MM\0*", 4))) return 1;
  const Tiff tiff(exif);
  if (!tiff.has(0, kTiffHeaderBytes)) return 1;
  uint64_t place = tiff.number(4, 4);
  if (!tiff.has(place, 2)) return 1;
  const uint64_t num_entries = tiff.number(place, 2);
  place += 2;
  for (uint64_t entry = 0; entry < num_entries && tiff.has(place, kTiffEntryBytes); ++entry, place += kTiffEntryBytes) {
    if (tiff.number(place, 2) != kOrientationTag) continue;
    const uint64_t type = tiff.number(place + 2, 2);
    if ((type != kShortType && type != kLongType) || tiff.number(place + 4, 4) != 1) return 1;
    const uint64_t value = tiff.number(place + kTiffValueOffset, type == kShortType ? 2 : 4);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

ImageRegion stored_region(const ImageRegion& upright, int64_t upright_height, int64_t upright_width, int orientation) {
  ImageRegion region = upright;
  if (is_transposed(orientation)) {
    std::swap(region.top, region.left);
    std::swap(region.height, region.width);
    std::swap(upright_height, upright_width);
  }
  if (flips_rows(orientation)) region.top = upright_height - region.top - region.height;
  if (flips_columns(orientation)) region.left = upright_width - region.left - region.width;
  return region;
}

void turn_pixels(std::span<const uint8_t> stored, int64_t height, int64_t width, int channels, int orientation,
                 std::span<uint8_t> upright) {
  switch (channels) {
    case 1: return turn<1>(stored.data(), height, width, orientation, upright.data());
    case 2: return turn<2>(stored.data(), height, width, orientation, upright.data());
    case 3: return turn<3>(stored.data(), height, width, orientation, upright.data());
    default: return turn<4>(stored.data(), height, width, orientation, upright.data());
  }
}

}  // namespace millrace
