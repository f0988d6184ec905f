#include "millrace/formats/image/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/image/decoded.h"

namespace millrace::decoder_test {
namespace {

using test::decode_refusal;
using test::decoded;
using test::decoded_region;
using test::drawn_picture;
using test::Picture;
using test::written_jpeg;
using test::written_png;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint8_t kHuffmanTables = 0xc4;

TEST(ImageDecoder, SaysWhatTheHeaderSays) {
  EXPECT_EQ(read_image_info(written_jpeg(drawn_picture(20, 30, 3))),
            (ImageInfo{.format = ImageFormat::kJpeg, .height = 20, .width = 30, .channels = 3}));
  EXPECT_EQ(read_image_info(written_jpeg(drawn_picture(7, 9, 4))),
            (ImageInfo{.format = ImageFormat::kJpeg, .height = 7, .width = 9, .channels = 3}));
  for (int channels = 1; channels <= 4; ++channels) {
    const std::string exif = test::png_chunk("eXIf", test::exif_data(6));
    EXPECT_EQ(
        read_image_info(written_png(drawn_picture(5, 8, channels), {.chunks = exif})),
        (ImageInfo{.format = ImageFormat::kPng, .height = 5, .width = 8, .channels = channels, .orientation = 6}));
  }
  EXPECT_EQ(to_string(ImageFormat::kJpeg), "JPEG");
  EXPECT_EQ(to_string(ImageFormat::kPng), "PNG");
}

TEST(ImageDecoder, GivesThePixelsOfAPng) {
  for (int channels = 1; channels <= 4; ++channels) {
    const Picture picture = drawn_picture(23, 31, channels);
    EXPECT_EQ(decoded(written_png(picture)).pixels, picture.pixels);
    EXPECT_EQ(decoded(written_png(picture, {.interlaced = true})).pixels, picture.pixels);
  }
}

TEST(ImageDecoder, NamesTheOtherFormats) {
  EXPECT_EQ(decode_refusal("GIF89a\1\0\1\0"), "parse: the picture is GIF; JPEG and PNG are read");
  EXPECT_EQ(decode_refusal("RIFF....WEBPVP8 "), "parse: the picture is WebP; JPEG and PNG are read");
  EXPECT_EQ(decode_refusal("BM6"), "parse: the picture is BMP; JPEG and PNG are read");
  EXPECT_EQ(decode_refusal({"II*\0....", 8}), "parse: the picture is TIFF; JPEG and PNG are read");
  EXPECT_EQ(decode_refusal({"MM\0*....", 8}), "parse: the picture is TIFF; JPEG and PNG are read");
  EXPECT_EQ(decode_refusal({"\0\0\0\x1c"
                            "ftypavif",
                            12}),
            "parse: the picture is AVIF; JPEG and PNG are read");
  EXPECT_EQ(decode_refusal({"\0\0\0\x1c"
                            "ftypheic",
                            12}),
            "parse: the picture is HEIC; JPEG and PNG are read");
  EXPECT_EQ(decode_refusal({"\0\0\0\x0cJXL \r\n", 10}), "parse: the picture is JPEG XL; JPEG and PNG are read");
  EXPECT_EQ(decode_refusal("<html>\n\xff"), "parse: neither JPEG nor PNG: it begins with 3c 68 74 6d 6c 3e 0a ff");
  EXPECT_EQ(decode_refusal("a"), "parse: neither JPEG nor PNG: it begins with 61");
  EXPECT_EQ(decode_refusal(""), "truncated: no JPEG or PNG: there are no bytes");
  EXPECT_EQ(decode_refusal("\xff"), "truncated: JPEG is cut after 1 bytes");
  EXPECT_EQ(decode_refusal("\x89PNG"), "truncated: PNG is cut after 4 bytes");
}

TEST(ImageDecoder, GivesTheChannelsThatAreAskedFor) {
  const Picture grey = drawn_picture(20, 30, 1);
  for (const std::string& bytes : {written_png(grey), written_jpeg(grey)}) {
    const std::vector<uint8_t> values = decoded(bytes).pixels;
    std::vector<uint8_t> rgb;
    std::vector<uint8_t> rgba;
    for (const uint8_t value : values) {
      rgb.insert(rgb.end(), {value, value, value});
      rgba.insert(rgba.end(), {value, value, value, 255});
    }
    EXPECT_EQ(decoded(bytes, {.channels = 1}).pixels, values);
    EXPECT_EQ(decoded(bytes, {.channels = 3}).pixels, rgb);
    EXPECT_EQ(decoded(bytes, {.channels = 4}).pixels, rgba);
  }
}

// Also of colours, whose alpha is dropped, and of CMYK.
TEST(ImageDecoder, MakesAlphaOpaqueWhereThereIsNone) {
  for (const std::string& bytes : {written_jpeg(drawn_picture(9, 14, 3)), written_jpeg(drawn_picture(9, 14, 4)),
                                   written_png(drawn_picture(9, 14, 3))}) {
    const std::vector<uint8_t> rgb = decoded(bytes, {.channels = 3}).pixels;
    const std::vector<uint8_t> rgba = decoded(bytes, {.channels = 4}).pixels;
    ASSERT_EQ(rgba.size() / 4, rgb.size() / 3);
    for (size_t i = 0; i < rgb.size(); ++i) ASSERT_EQ(rgba[i / 3 * 4 + i % 3], rgb[i]);
    for (size_t i = 3; i < rgba.size(); i += 4) ASSERT_EQ(rgba[i], 255);
  }
  const Picture rgba = drawn_picture(9, 14, 4);
  const std::vector<uint8_t> rgb = decoded(written_png(rgba), {.channels = 3}).pixels;
  for (size_t i = 0; i < rgb.size(); ++i) ASSERT_EQ(rgb[i], rgba.pixels[i / 3 * 4 + i % 3]);
}

TEST(ImageDecoder, MakesCmykGreyByTheWeightsOfJpeg) {
  const std::string bytes = written_jpeg(drawn_picture(9, 14, 4));
  const std::vector<uint8_t> rgb = decoded(bytes).pixels;
  const std::vector<uint8_t> grey = decoded(bytes, {.channels = 1}).pixels;
  ASSERT_EQ(grey.size() * 3, rgb.size());
  for (size_t i = 0; i < grey.size(); ++i) {
    ASSERT_NEAR(grey[i], 0.299 * rgb[3 * i] + 0.587 * rgb[3 * i + 1] + 0.114 * rgb[3 * i + 2], 0.51);
  }
}

TEST(ImageDecoder, LaysPixelsOverABackground) {
  const Picture rgba{1, 3, 4, {100, 150, 200, 255, 100, 150, 200, 0, 100, 150, 200, 51}};
  const std::string bytes = written_png(rgba);
  const std::vector<uint8_t> rgb = {100, 150, 200, 10, 20, 30, 28, 46, 64};
  EXPECT_EQ(decoded(bytes, {.channels = 3, .background = {{10, 20, 30}}}).pixels, rgb);
  EXPECT_EQ(decoded(bytes, {.background = {{10, 20, 30}}}).pixels, rgb);
  const Picture grey{1, 3, 2, {100, 255, 100, 0, 100, 51}};
  // The background is 0.299 × 10 + 0.587 × 20 + 0.114 × 30 = 18.15 grey.
  EXPECT_EQ(decoded(written_png(grey), {.background = {{10, 20, 30}}}).pixels, (std::vector<uint8_t>{100, 18, 34}));
  const std::string opaque = written_jpeg(drawn_picture(5, 6, 3));
  EXPECT_EQ(decoded(opaque, {.background = {{10, 20, 30}}}).pixels, decoded(opaque).pixels);
}

TEST(ImageDecoder, ScalesAJpegAndNoPng) {
  const Picture picture = drawn_picture(45, 61, 3);
  ImageDecoder decoder;
  const std::string jpeg = written_jpeg(picture, {.horizontal_sampling = 2, .vertical_sampling = 2});
  decoder.start(jpeg, {.scale_denominator = 4});
  EXPECT_EQ(decoder.whole(), (ImageRegion{0, 0, 12, 16}));
  EXPECT_EQ(decoder.info().height, 45);
  decoder.set_scale_denominator(8);
  EXPECT_EQ(decoder.whole(), (ImageRegion{0, 0, 6, 8}));
  EXPECT_EQ(decoded_region(decoder, decoder.whole()), decoded(jpeg, {.scale_denominator = 8}).pixels);
  EXPECT_EQ(decoded(written_png(picture), {.scale_denominator = 4}).pixels, picture.pixels);
}

TEST(ImageDecoder, TurnsAPictureUprightWhereThatIsAskedFor) {
  // Rows 1 2 3 and 4 5 6, as they are seen by the eight orientations.
  const Picture picture{2, 3, 1, {1, 2, 3, 4, 5, 6}};
  const std::vector<std::vector<uint8_t>> upright = {{1, 2, 3, 4, 5, 6}, {3, 2, 1, 6, 5, 4}, {6, 5, 4, 3, 2, 1},
                                                     {4, 5, 6, 1, 2, 3}, {1, 4, 2, 5, 3, 6}, {4, 1, 5, 2, 6, 3},
                                                     {6, 3, 5, 2, 4, 1}, {3, 6, 2, 5, 1, 4}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string exif = test::png_chunk("eXIf", test::exif_data(orientation, orientation % 2 == 0));
    // Before the pixels, and behind them, before the last chunk.
    std::string behind = written_png(picture);
    behind.insert(behind.size() - 12, exif);
    for (const std::string& bytes : {written_png(picture, {.chunks = exif}), behind}) {
      const Picture turned = decoded(bytes, {.applies_orientation = true});
      EXPECT_EQ(turned.pixels, upright[orientation - 1]);
      EXPECT_EQ(turned.height, orientation >= 5 ? 3 : 2);
      EXPECT_EQ(decoded(bytes).pixels, picture.pixels);
    }
  }
}

TEST(ImageDecoder, TakesNoOrientationOfAPngFromDataThatAreDamagedOrCut) {
  const std::string png = written_png(drawn_picture(5, 8, 3));
  const std::string exif = test::png_chunk("eXIf", test::exif_data(6));
  const std::string end = png.substr(png.size() - 12);
  const std::string start = png.substr(0, png.size() - 12);
  EXPECT_EQ(read_image_info(start + exif + end).orientation, 6);
  std::string damaged = exif;
  damaged.back() ^= 1;
  EXPECT_EQ(read_image_info(start + damaged + end).orientation, 1);
  EXPECT_EQ(read_image_info(start + damaged + exif + end).orientation, 6);
  EXPECT_EQ(read_image_info(start + exif.substr(0, exif.size() - 1)).orientation, 1);
  EXPECT_EQ(read_image_info(start + end + exif).orientation, 1);
  // A length beyond the file.
  EXPECT_EQ(read_image_info(start + "\xff\xff\xff\xff" + exif.substr(4)).orientation, 1);
}

TEST(ImageDecoder, KeepsNothingOfThePictureBefore) {
  const Picture picture = drawn_picture(40, 40, 3);
  const std::string first = written_jpeg(picture, {.quality = 30, .optimized_tables = true});
  // Without its own tables, libjpeg takes those of the standard.
  std::string second = written_jpeg(picture);
  for (size_t place; (place = test::place_of_marker(second, kHuffmanTables)) != std::string::npos;) {
    second.erase(place, 2 + static_cast<size_t>(static_cast<uint8_t>(second[place + 2])) * 256 +
                            static_cast<uint8_t>(second[place + 3]));
  }
  const std::string png = written_png(picture);
  ImageDecoder decoder;
  for (const std::string& bytes : {first, second, png, second.substr(0, 300), png.substr(0, 90), second}) {
    try {
      decoder.start(bytes);
      const std::vector<uint8_t> pixels = decoded_region(decoder, decoder.whole());
      EXPECT_EQ(pixels, decoded(bytes).pixels);
      EXPECT_EQ(pixels, decoded_region(decoder, decoder.whole()));
    } catch (const ErrorException& exception) {
      EXPECT_EQ(decode_refusal(bytes), exception.what());
    }
  }
  EXPECT_EQ(decoded(second).pixels, decoded(written_jpeg(picture)).pixels);
}

TEST(ImageDecoder, RefusesWhatCannotBe) {
  const std::string bytes = written_jpeg(drawn_picture(20, 30, 3));
  EXPECT_EQ(decode_refusal(bytes, {.channels = 2}), "invalid_argument: channels is 2; it is 0, 1, 3 or 4");
  EXPECT_EQ(decode_refusal(bytes, {.scale_denominator = 3}),
            "invalid_argument: scale_denominator is 3; it is 1, 2, 4 or 8");
  EXPECT_THAT(decode_refusal(bytes, {.channels = 4, .background = {{0, 0, 0}}}),
              StartsWith("invalid_argument: channels is 4 and there is a background"));
  ImageDecoder decoder;
  std::vector<uint8_t> pixels(3 * 4 * 5);
  const auto refusal = [&](const ImageRegion& region) -> std::string {
    try {
      decoder.decode(region, pixels);
    } catch (const ErrorException& exception) {
      return exception.what();
    }
    return "none";
  };
  EXPECT_THAT(refusal({0, 0, 4, 5}), HasSubstr("call start"));
  decoder.start(bytes);
  EXPECT_EQ(refusal({0, 0, 4, 5}), "none");
  EXPECT_EQ(refusal({16, 25, 4, 5}), "none");
  EXPECT_EQ(refusal({17, 25, 4, 5}),
            "invalid_argument: the region of 4 × 5 pixels at row 17, column 25 is no part of a picture of 20 × 30");
  for (const ImageRegion& region :
       {ImageRegion{16, 26, 4, 5}, ImageRegion{-1, 0, 4, 5}, ImageRegion{0, -1, 4, 5}, ImageRegion{0, 0, 0, 5},
        ImageRegion{0, 0, 4, 0}, ImageRegion{0, 0, 4, INT64_MAX}, ImageRegion{INT64_MAX, 0, 4, 5}}) {
    EXPECT_THAT(refusal(region), HasSubstr("is no part of a picture of 20 × 30"));
  }
  EXPECT_EQ(refusal({0, 0, 5, 5}), "invalid_argument: the region has 75 bytes of pixels, and there is room for 60");
  EXPECT_THROW(decoder.start("GIF89a"), ErrorException);
  EXPECT_THAT(refusal({0, 0, 4, 5}), HasSubstr("call start"));
}

}  // namespace
}  // namespace millrace::decoder_test
