#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace {

/// One after the other the segments of a JPEG that have content (ITU-T T.81, annex B), without the data of scans and
/// the markers in it: where libjpeg finds them, but stops where it would report damage.
class JpegMarkers {
 public:
  struct Segment {
    uint8_t marker;
    std::string_view content;
  };
  static constexpr uint8_t kStartOfScan = 0xda;
  static constexpr uint8_t kApplication1 = 0xe1;

  /// `bytes`: the whole file, or its beginning.
  explicit JpegMarkers(std::string_view bytes) : bytes_(bytes) {}
  /// Nothing after the end of the picture, or where the bytes end or make no sense.
  std::optional<Segment> next();

 private:
  std::string_view bytes_;
  size_t place_ = 2;  // after the start of the picture
};

/// The orientation in the EXIF segment before the first scan; 1 where there is none.
[[nodiscard]] int jpeg_orientation(std::string_view bytes);
/// At most `most + 1` are counted.
[[nodiscard]] int64_t count_jpeg_scans(std::string_view bytes, int64_t most);

}  // namespace millrace
