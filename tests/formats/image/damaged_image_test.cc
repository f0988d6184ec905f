#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/image/decoded.h"

namespace millrace::damaged_image_test {
namespace {

using test::decode_error;
using test::decode_refusal;
using test::decoded;
using test::decoded_region;
using test::drawn_picture;
using test::JpegForm;
using test::Picture;
using test::written_jpeg;
using test::written_png;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint8_t kStartOfScan = 0xda;
constexpr std::string_view kEndOfPicture = "\xff\xd9";

// Cut after each number of bytes: `truncated`, or from `first_good` bytes on the pixels of the whole file.
void expect_cuts_are_errors(const std::string& bytes, size_t first_good) {
  const Picture whole = decoded(bytes);
  const int64_t half = whole.height / 2;
  for (size_t size = 1; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);
    const std::optional<Error> error = decode_error(cut);
    if (!error) {
      ASSERT_GE(size, first_good);
      ASSERT_EQ(decoded(cut).pixels, whole.pixels) << "of " << size << " bytes of " << bytes.size();
      continue;
    }
    ASSERT_EQ(error->code, ErrorCode::kTruncated) << size << " bytes of " << bytes.size() << ": " << error->message;
    ASSERT_THAT(error->message, HasSubstr(fmt::format("is cut after {} bytes", size)));
    // What a part of it needs may be there.
    if (decode_error(cut, {}, half)) continue;
    ImageDecoder decoder;
    decoder.start(cut);
    ASSERT_EQ(decoded_region(decoder, {0, 0, half, whole.width}),
              pixels_of(whole, 0, 0, static_cast<int>(half), whole.width));
  }
}

TEST(CutJpeg, IsAnErrorOrHasAllPixels) {
  for (const int sampling : {1, 2}) {
    for (int coding = 0; coding < 5; ++coding) {
      const JpegForm form{.horizontal_sampling = sampling,
                          .vertical_sampling = sampling,
                          .progressive = coding == 1,
                          .scan_for_each_component = coding == 2,
                          .arithmetic = coding == 3,
                          .restart_interval = coding == 4 ? 2 : 0};
      const std::string bytes = written_jpeg(drawn_picture(40, 36, 3), form);
      const bool may_lack_end = coding == 0 || coding == 4;
      expect_cuts_are_errors(bytes, bytes.size() - (may_lack_end ? kEndOfPicture.size() : 0));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CutJpeg, ThatLacksOnlyTheMarkOfItsEndIsRead) {
  const std::string bytes = written_jpeg(drawn_picture(40, 36, 3));
  EXPECT_EQ(decoded(bytes.substr(0, bytes.size() - 2)).pixels, decoded(bytes).pixels);
  const std::string progressive = written_jpeg(drawn_picture(40, 36, 3), {.progressive = true});
  EXPECT_EQ(decode_refusal(progressive.substr(0, progressive.size() - 2)),
            "truncated: JPEG is cut after " + std::to_string(progressive.size() - 2) + " bytes");
}

TEST(CutPng, IsAnError) {
  for (const bool interlaced : {false, true}) {
    const std::string bytes = written_png(drawn_picture(20, 21, 3), {.interlaced = interlaced});
    expect_cuts_are_errors(bytes, bytes.size());
  }
}

TEST(DamagedJpeg, IsAnErrorWithWhatLibjpegSays) {
  const std::string bytes = written_jpeg(drawn_picture(64, 64, 3));
  std::string damaged = bytes;
  // The data of the scan ends at a marker.
  damaged.replace(bytes.size() - 200, 2, kEndOfPicture);
  EXPECT_EQ(decode_refusal(damaged), "parse: damaged JPEG: Corrupt JPEG data: premature end of data segment");
  damaged = bytes;
  for (size_t place = bytes.size() - 400; place < bytes.size() - 200; place += 2) {
    damaged.replace(place, 2, "\xff\0", 2);  // no code is all ones
  }
  EXPECT_THAT(decode_refusal(damaged), StartsWith("parse: damaged JPEG: Corrupt JPEG data: bad Huffman code"));
  damaged = written_jpeg(drawn_picture(64, 64, 3), {.restart_interval = 4});
  damaged[test::place_of_marker(damaged, 0xd2) + 1] = '\xd5';
  EXPECT_THAT(decode_refusal(damaged), StartsWith("parse: damaged JPEG: Corrupt JPEG data: found marker 0xd5"));
  damaged = bytes;
  damaged[test::place_of_marker(damaged, 0xc0) + 1] = '\xc3';
  EXPECT_THAT(decode_refusal(damaged), StartsWith("parse: no JPEG that can be decoded: Unsupported"));
  damaged = bytes;
  damaged[test::place_of_marker(damaged, 0xc0) + 9] = 2;
  EXPECT_THAT(decode_refusal(damaged), StartsWith("parse: "));
}

// As TensorFlow does: such files are in large data sets.
TEST(DamagedJpeg, IsReadWhereNoPixelIsMadeOfTheDamage) {
  const std::string bytes = written_jpeg(drawn_picture(64, 64, 3));
  std::string with_more = bytes;
  with_more.insert(bytes.size() - 2, "extraneous");
  EXPECT_EQ(decoded(with_more).pixels, decoded(bytes).pixels);
  EXPECT_EQ(decoded(bytes + "behind the end").pixels, decoded(bytes).pixels);
  const std::string progressive = written_jpeg(drawn_picture(64, 64, 3), {.progressive = true});
  with_more = progressive;
  with_more.insert(test::place_of_marker(progressive, kStartOfScan, 2), "extraneous");
  EXPECT_EQ(decoded(with_more).pixels, decoded(progressive).pixels);
}

TEST(DamagedPng, IsAnErrorWithWhatLibpngSays) {
  const std::string bytes = written_png(drawn_picture(64, 64, 3));
  std::string damaged = bytes;
  damaged[bytes.size() / 2] ^= 1;
  EXPECT_THAT(decode_refusal(damaged), StartsWith("parse: no PNG that can be decoded: IDAT: "));
  damaged = bytes;
  damaged[20] ^= 1;
  EXPECT_EQ(decode_refusal(damaged), "parse: no PNG that can be decoded: IHDR: CRC error");
}

// Behind the region it is not seen, which is what decoding a part saves.
TEST(DamagedPng, IsReadUpToTheDamage) {
  const Picture picture = drawn_picture(64, 64, 3);
  std::string damaged = written_png(picture);
  damaged[damaged.size() - 40] ^= 1;
  ImageDecoder decoder;
  decoder.start(damaged);
  EXPECT_EQ(decoded_region(decoder, {0, 5, 20, 30}), pixels_of(picture, 0, 5, 20, 30));
  EXPECT_NE(decode_refusal(damaged), "none");
}

}  // namespace
}  // namespace millrace::damaged_image_test
