#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "millrace/formats/base64.h"
#include "tests/formats/image/decoded.h"
#include "tests/support/places.h"

namespace millrace::tensorflow_pixels_test {
namespace {

using nlohmann::json;

// CMYK, of which TensorFlow makes no grey: that of the colours.
void expect_grey(const std::string& bytes) {
  const auto decoded = [&](int channels) {
    ImageDecoder decoder;
    decoder.start(bytes, {.channels = channels});
    return test::decoded_region(decoder, decoder.whole());
  };
  const std::vector<uint8_t> grey = decoded(1);
  const std::vector<uint8_t> colours = decoded(3);
  ASSERT_EQ(colours.size(), 3 * grey.size());
  for (size_t i = 0; i < grey.size(); ++i) {
    const double expected = 0.299 * colours[3 * i] + 0.587 * colours[3 * i + 1] + 0.114 * colours[3 * i + 2];
    ASSERT_NEAR(grey[i], expected, 1) << "pixel " << i;
  }
}

// See tests/data/images/README.md.
TEST(Pixels, AreThoseOfTensorFlow) {
  std::ifstream file(test::data_path("images/cases.jsonl"));
  size_t num_outputs = 0;
  for (std::string line; std::getline(file, line);) {
    const json one = json::parse(line);
    const std::string bytes = decode_base64(one.at("file").get<std::string>()).value();
    for (const json& expected : one.at("outputs")) {
      SCOPED_TRACE(one.at("name").get<std::string>() + " " + expected.dump());
      ++num_outputs;
      if (expected.contains("error")) {
        expect_grey(bytes);
        continue;
      }
      ImageDecoder decoder;
      decoder.start(bytes, {.channels = expected.at("channels"),
                            .applies_orientation = expected.contains("upright"),
                            .scale_denominator = expected.at("scale")});
      EXPECT_EQ((std::vector<int64_t>{decoder.height(), decoder.width(), decoder.channels()}),
                expected.at("shape").get<std::vector<int64_t>>());
      const std::vector<uint8_t> pixels = test::decoded_region(decoder, decoder.whole());
      EXPECT_EQ(crc32(0, pixels.data(), static_cast<uInt>(pixels.size())), expected.at("crc32").get<uint64_t>());
    }
  }
  EXPECT_GT(num_outputs, 500U);
}

}  // namespace
}  // namespace millrace::tensorflow_pixels_test
