#include <gtest/gtest.h>
#include <zlib.h>

#include "tests/formats/image/decoded.h"
#include "tests/support/packed.h"

namespace millrace::image_limits_test {
namespace {

using test::decode_refusal;
using test::decoded;
using test::drawn_picture;
using test::Picture;
using test::written_jpeg;
using test::written_png;

constexpr uint8_t kStartOfScan = 0xda;
constexpr uint8_t kEndOfImage = 0xd9;

// The last scan of a progressive picture again and again.
std::string with_scans(const std::string& progressive, int num_more) {
  const size_t end = progressive.size() - 2;
  size_t begin = 0;
  for (size_t nth = 0; test::place_of_marker(progressive, kStartOfScan, nth) != std::string::npos; ++nth) {
    begin = test::place_of_marker(progressive, kStartOfScan, nth);
  }
  std::string bytes = progressive.substr(0, end);
  for (int i = 0; i < num_more; ++i) bytes += progressive.substr(begin, end - begin);
  return bytes + '\xff' + static_cast<char>(kEndOfImage);
}

// A black square, grey: the same compressed rows again and again, so that none but the first are compressed. The side
// is a multiple of 100.
std::string black_png(uint32_t side) {
  const std::string rows(size_t{100} * (side + 1), '\0');
  std::string once(compressBound(rows.size()), '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rows.data()));
  stream.avail_in = static_cast<uInt>(rows.size());
  stream.next_out = reinterpret_cast<Bytef*>(once.data());
  stream.avail_out = static_cast<uInt>(once.size());
  EXPECT_EQ(deflate(&stream, Z_FULL_FLUSH), Z_OK);  // ends at a byte, and what follows refers to nothing before
  once.resize(stream.total_out);
  deflateEnd(&stream);
  std::string packed = "\x78\xda";
  for (uint32_t row = 0; row < side; row += 100) packed += once;
  packed += std::string("\x03\0", 2);  // an empty last block
  // Adler-32 of zeros: their number above 1.
  const uint64_t sum = uint64_t{side} * (side + 1) % 65521;
  packed += {static_cast<char>(sum >> 8), static_cast<char>(sum), '\0', '\x01'};
  const std::string header = test::with_png_size(written_png({1, 1, 1, {0}}), side, side).substr(0, 33);
  return header + test::png_chunk("IDAT", packed) + test::png_chunk("IEND", "");
}

TEST(ImageLimits, RefusePicturesOfTooManyPixels) {
  const Picture small = decoded(black_png(300));
  EXPECT_EQ(small.height, 300);
  EXPECT_EQ(small.pixels, std::vector<uint8_t>(300 * 300, 0));
  const std::string bomb = black_png(30000);
  EXPECT_LT(bomb.size(), 1 << 20);
  EXPECT_EQ(decode_refusal(bomb), "out_of_range: 30000 × 30000 pixels are more than the limit of 268435456");
  // Nothing else is wrong with it.
  EXPECT_EQ(test::decode_error(bomb, {.limits = {.most_pixels = 900'000'000}}, 200), std::nullopt);
  std::string jpeg = written_jpeg(drawn_picture(16, 16, 3));
  const size_t frame = test::place_of_marker(jpeg, 0xc0);
  jpeg.replace(frame + 5, 4, "\xff\x00\xff\x01", 4);
  EXPECT_EQ(decode_refusal(jpeg), "out_of_range: 65280 × 65281 pixels are more than the limit of 268435456");
}

TEST(ImageLimits, AreWhatIsStillRead) {
  const std::string jpeg = written_jpeg(drawn_picture(16, 20, 3));
  EXPECT_EQ(decode_refusal(jpeg, {.limits = {.most_pixels = 320}}), "none");
  EXPECT_EQ(decode_refusal(jpeg, {.limits = {.most_pixels = 319}}),
            "out_of_range: 16 × 20 pixels are more than the limit of 319");
  const std::string png = written_png(drawn_picture(16, 20, 3));
  EXPECT_EQ(decode_refusal(png, {.limits = {.most_pixels = 320}}), "none");
  EXPECT_EQ(decode_refusal(png, {.limits = {.most_pixels = 319}}),
            "out_of_range: 16 × 20 pixels are more than the limit of 319");
  const std::string progressive = written_jpeg(drawn_picture(16, 20, 3), {.progressive = true});
  EXPECT_EQ(decode_refusal(progressive, {.limits = {.most_scans = 10}}), "none");
  EXPECT_EQ(decode_refusal(progressive, {.limits = {.most_scans = 9}}),
            "out_of_range: JPEG has more scans than the limit of 9");
  EXPECT_EQ(decode_refusal(progressive, {.limits = {.most_scanned_pixels = 3200}}), "none");
  EXPECT_EQ(decode_refusal(progressive, {.limits = {.most_scanned_pixels = 3199}}),
            "out_of_range: 10 scans of 16 × 20 pixels are more pixels than the limit of 3199");
  EXPECT_EQ(decode_refusal(jpeg, {.limits = {.most_scans = 0, .most_scanned_pixels = 0}}), "none");  // it has one
}

TEST(ImageLimits, RefuseAJpegOfThousandsOfScans) {
  const std::string bytes = with_scans(written_jpeg(drawn_picture(40, 40, 3), {.progressive = true}), 5000);
  EXPECT_EQ(decode_refusal(bytes), "out_of_range: JPEG has more scans than the limit of 500");
}

// libjpeg passes over a segment whose length is too small, and reads what follows.
TEST(ImageLimits, CountScansAfterASegmentThatIsTooShort) {
  std::string bytes = with_scans(written_jpeg(drawn_picture(40, 40, 3), {.scan_for_each_component = true}), 600);
  bytes.insert(2, std::string("\xff\xfe\0\0", 4));
  EXPECT_EQ(decode_refusal(bytes), "out_of_range: JPEG has more scans than the limit of 500");
}

// Also scans in an EXIF thumbnail are none of the picture's.
TEST(ImageLimits, CountScansOfThePictureOnly) {
  const std::string progressive = written_jpeg(drawn_picture(40, 40, 3), {.progressive = true});
  const std::string bytes = test::with_segment(progressive, 0xe1, progressive);
  EXPECT_EQ(decode_refusal(bytes, {.limits = {.most_scans = 10}}), "none");
}

TEST(ImageLimits, LetLongTextsInAPngPass) {
  const Picture picture = drawn_picture(16, 20, 3);
  const std::string text = test::packed(std::string(10'000'000, '\0'), Compression::kZlib);
  for (const std::string& chunk : {test::png_chunk("zTXt", std::string("a\0\0", 3) + text),
                                   test::png_chunk("tEXt", std::string("a\0", 2) + std::string(3'000'000, 'x')),
                                   test::png_chunk("prVt", std::string(3'000'000, 'x'))}) {
    EXPECT_EQ(decoded(written_png(picture, {.chunks = chunk})).pixels, picture.pixels);
  }
}

}  // namespace
}  // namespace millrace::image_limits_test
