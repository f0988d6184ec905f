#include <gtest/gtest.h>

#include "tests/formats/image/decoded.h"
#include "tests/support/sanitized.h"

namespace millrace::region_test {
namespace {

using test::decoded;
using test::decoded_region;
using test::drawn_picture;
using test::JpegForm;
using test::Picture;
using test::written_jpeg;
using test::written_png;

constexpr int kMostOffset = 16;
constexpr int kOffsetStep = test::kSanitized ? 5 : 1;

// The regions of all sizes at (top, left), as far as they lie inside, are those of the whole picture.
void expect_regions(ImageDecoder& decoder, const Picture& whole, int top, int left) {
  for (const int height : {1, 9, 17}) {
    for (const int width : {1, 3, 33}) {
      const ImageRegion region{top, left, std::min(height, whole.height - top), std::min(width, whole.width - left)};
      if (region.height <= 0 || region.width <= 0) continue;
      ASSERT_EQ(decoded_region(decoder, region),
                pixels_of(whole, top, left, static_cast<int>(region.height), static_cast<int>(region.width)))
          << "of " << whole.height << " × " << whole.width << ": row " << top << ", column " << left << ", "
          << region.height << " × " << region.width;
    }
  }
}

// At each offset of rows one of columns, and the other way round; as long as the picture is large enough.
void expect_each_region(const std::string& bytes, const DecodeOptions& options) {
  const Picture whole = decoded(bytes, options);
  ImageDecoder decoder;
  decoder.start(bytes, options);
  for (int offset = 0; offset <= kMostOffset; offset += kOffsetStep) {
    for (const int other : {offset * 7 % 17, 31 + offset}) {
      expect_regions(decoder, whole, offset, other);
      expect_regions(decoder, whole, other, offset);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  // Up to the last row and column.
  for (int left = 1; left <= std::min(kMostOffset, whole.width); left += kOffsetStep) {
    expect_regions(decoder, whole, std::max(0, whole.height - left), whole.width - left);
  }
}

struct Kind {
  const char* name;
  int channels;
  int horizontal;
  int vertical;
};

class JpegRegion : public ::testing::TestWithParam<Kind> {};

TEST_P(JpegRegion, HasThePixelsOfTheWholePictureAtEachOffset) {
  const Kind& kind = GetParam();
  for (int coding = 0; coding < 4; ++coding) {
    const JpegForm form{.horizontal_sampling = kind.horizontal,
                        .vertical_sampling = kind.vertical,
                        .progressive = coding == 1,
                        .scan_for_each_component = coding == 2,
                        .restart_interval = coding == 3 ? 3 : 0};
    const std::string bytes = written_jpeg(drawn_picture(93, 107, kind.channels), form);
    for (const int scale : {1, 2, 4, 8}) {
      if (test::kSanitized && coding + scale > 3) continue;
      SCOPED_TRACE(testing::Message() << "coding " << coding << ", scale " << scale);
      expect_each_region(bytes, {.channels = kind.channels == 1 ? 1 : 3, .scale_denominator = scale});
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, JpegRegion,
                         ::testing::Values(Kind{"grey", 1, 1, 1}, Kind{"yuv444", 3, 1, 1}, Kind{"yuv422", 3, 2, 1},
                                           Kind{"yuv420", 3, 2, 2}, Kind{"yuv440", 3, 1, 2}, Kind{"yuv411", 3, 4, 1},
                                           Kind{"yuv410", 3, 4, 2}, Kind{"yuv_2_by_4", 3, 2, 4},
                                           Kind{"yuv_1_by_4", 3, 1, 4}, Kind{"cmyk", 4, 1, 1},
                                           Kind{"cmyk_with_other_sampling", 4, 2, 2}),
                         [](const auto& kind) { return kind.param.name; });

TEST(JpegRegionOf, ASmallPictureHasThePixelsOfTheWholePicture) {
  for (int size = 1; size <= 34; ++size) {
    const std::string bytes =
        written_jpeg(drawn_picture(size, 35 - size, 3),
                     {.horizontal_sampling = 2, .vertical_sampling = 2, .progressive = size % 2 == 0});
    expect_each_region(bytes, {});
    if (HasFatalFailure()) return;
  }
}

// Of a picture whose last scans are left out libjpeg smoothes the blocks, by those around them.
TEST(JpegRegionOf, AnIncompleteProgressivePictureHasThePixelsOfTheWholePicture) {
  constexpr uint8_t kStartOfScan = 0xda;
  const std::string bytes =
      written_jpeg(drawn_picture(93, 107, 3),
                   {.quality = 60, .horizontal_sampling = 2, .vertical_sampling = 2, .progressive = true});
  for (size_t num_scans = 1; num_scans < 10; ++num_scans) {
    const size_t end = test::place_of_marker(bytes, kStartOfScan, num_scans);
    ASSERT_NE(end, std::string::npos);
    expect_each_region(bytes.substr(0, end) + "\xff\xd9", {});
    if (HasFatalFailure()) return;
  }
}

TEST(PngRegion, HasThePixelsOfTheWholePictureAtEachOffset) {
  for (int stored = 1; stored <= 4; ++stored) {
    for (const bool interlaced : {false, true}) {
      const std::string bytes = written_png(drawn_picture(51, 67, stored), {.interlaced = interlaced});
      for (const int channels : {0, 1, 3, 4}) {
        expect_each_region(bytes, {.channels = channels});
        if (channels == 0) expect_each_region(bytes, {.channels = channels, .background = {{10, 200, 30}}});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(UprightRegion, HasThePixelsOfTheWholeUprightPicture) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Picture picture = drawn_picture(51, 67, 3);
    const std::string exif = test::exif_data(orientation);
    const JpegForm form{.horizontal_sampling = 2, .vertical_sampling = 2};
    const std::string jpeg = test::with_segment(written_jpeg(picture, form), 0xe1, std::string("Exif\0\0", 6) + exif);
    for (const int scale : {1, 2}) {
      expect_each_region(jpeg, {.applies_orientation = true, .scale_denominator = scale});
    }
    expect_each_region(written_png(picture, {.chunks = test::png_chunk("eXIf", exif)}), {.applies_orientation = true});
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace millrace::region_test
