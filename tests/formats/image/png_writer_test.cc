#include "millrace/formats/image/png_writer.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/image/decoded.h"

namespace millrace::png_writer_test {
namespace {

using test::decoded;
using test::drawn_picture;
using test::Picture;

std::string written(const Picture& picture) {
  return write_png(picture.pixels, picture.height, picture.width, picture.channels);
}

template <typename Write>
std::string refusal(const Write& write) {
  try {
    write();
    return "none";
  } catch (const ErrorException& exception) {
    return exception.what();
  }
}

TEST(PngWriter, WritesWhatTheDecoderGivesBack) {
  for (const int channels : {1, 3, 4}) {
    for (const auto& [height, width] : {std::pair(1, 1), {1, 7}, {7, 1}, {23, 31}, {64, 100}}) {
      const Picture picture = drawn_picture(height, width, channels);
      const Picture back = decoded(written(picture));
      EXPECT_EQ(back.height, height);
      EXPECT_EQ(back.width, width);
      EXPECT_EQ(back.channels, channels);
      EXPECT_TRUE(back.pixels == picture.pixels) << height << " × " << width << " × " << channels;
    }
  }
}

TEST(PngWriter, WritesALargePicture) {
  const Picture picture = drawn_picture(1500, 2100, 3);
  const std::string bytes = written(picture);
  EXPECT_TRUE(decoded(bytes).pixels == picture.pixels);
  const Picture flat{2000, 3000, 3, std::vector<uint8_t>(size_t{2000} * 3000 * 3, 77)};
  EXPECT_LT(written(flat).size(), 100'000U);  // it is packed
  // Wider than libpng's own limit.
  const Picture wide{2, 1'200'000, 1, std::vector<uint8_t>(2'400'000, 9)};
  EXPECT_TRUE(decoded(written(wide)).pixels == wide.pixels);
}

TEST(PngWriter, GivesTheSameFileForAnyNumberOfRowsAtATime) {
  const Picture picture = drawn_picture(50, 40, 4);
  const std::string whole = written(picture);
  for (const size_t rows : {1U, 3U, 49U}) {
    PngWriter png(50, 40, 4);
    std::string bytes;
    for (size_t row = 0; row < 50; row += rows) {
      const size_t count = std::min<size_t>(rows, 50 - row);
      bytes += png.write_rows(std::span(picture.pixels).subspan(row * 160, count * 160));
    }
    bytes += png.finish();
    EXPECT_TRUE(bytes == whole) << rows;
  }
}

TEST(PngWriter, RefusesWhatIsNoPictureOfItsSize) {
  const std::vector<uint8_t> pixels(12);
  EXPECT_EQ(refusal([] { PngWriter(0, 1, 3); }), "invalid_argument: a PNG of 0 × 1 pixels; sides have 1 to 2147483647");
  EXPECT_EQ(refusal([] { PngWriter(1, int64_t{1} << 31, 3); }),
            "invalid_argument: a PNG of 1 × 2147483648 pixels; sides have 1 to 2147483647");
  EXPECT_EQ(refusal([] { PngWriter(1, 1, 2); }), "invalid_argument: a PNG of 2 channels; it has 1, 3 or 4");
  EXPECT_EQ(refusal([&] { (void)write_png(pixels, 2, 3, 3); }),
            "invalid_argument: 12 bytes of pixels are no whole rows of 9");
  EXPECT_EQ(refusal([&] { (void)write_png(pixels, 3, 2, 3); }), "invalid_argument: a PNG lacks its last 1 rows");
  EXPECT_EQ(refusal([&] { (void)write_png(pixels, 1, 2, 3); }),
            "invalid_argument: 2 rows of a PNG that has room for 1 more");
  PngWriter png(2, 2, 3);
  EXPECT_FALSE(png.write_rows(pixels).empty());
  EXPECT_FALSE(png.finish().empty());
  EXPECT_EQ(refusal([&] { (void)png.finish(); }), "invalid_argument: a PNG is finished twice");
}

}  // namespace
}  // namespace millrace::png_writer_test
