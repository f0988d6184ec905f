#include "millrace/formats/compression/seek_point.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/compression/deflate.h"
#include "millrace/formats/compression/inflate.h"
#include "tests/fuzz/inflate_fuzz.h"
#include "tests/support/damage.h"

namespace millrace::seek_point_test {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMiB = 1 << 20;

std::string packed(Compression compression, std::string_view bytes, int level = 6) {
  Deflater deflater(compression, level);
  std::string out;
  deflater.write(bytes, out);
  deflater.finish(out);
  return out;
}

std::string text(size_t size) {
  std::string out;
  for (uint64_t i = 0; out.size() < size; ++i) out += std::to_string(i * 7919 % 10007);
  out.resize(size);
  return out;
}

std::string noise(size_t size) {
  std::string out;
  uint64_t state = 1;
  while (out.size() < size) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    out.push_back(static_cast<char>(state >> 56));
  }
  return out;
}

struct Unpacked {
  std::string bytes;
  Error error;
  bool good = true;
};

// Goes on after bad trailers.
Unpacked unpack(Inflater& inflater, std::string_view bytes) {
  Unpacked unpacked;
  std::vector<std::byte> room(100000);
  auto input = std::as_bytes(std::span(bytes));
  for (;;) {
    const auto piece = input.first(std::min<size_t>(30000, input.size()));
    const Inflater::Result result = inflater.run(piece, room);
    unpacked.bytes.append(reinterpret_cast<const char*>(room.data()), result.num_written);
    input = input.subspan(result.num_read);
    if (result.status == Inflater::Status::kError) {
      unpacked.good = false;
      unpacked.error = inflater.error();
      if (!inflater.pass_bad_trailer()) return unpacked;
    } else if (result.status == Inflater::Status::kNeedInput && input.empty()) {
      if (!inflater.finish()) {
        unpacked.good = false;
        unpacked.error = inflater.error();
      }
      return unpacked;
    }
  }
}

Unpacked unpack_from(const SeekPoint& point, Compression compression, std::string_view file,
                     InflateEngine engine = InflateEngine::kFastest) {
  Inflater inflater(compression, point, engine);
  return unpack(inflater, file.substr(point.bit / 8));
}

std::vector<SeekPoint> find_points(Compression compression, std::string_view file, uint64_t distance) {
  Inflater inflater(compression, InflateEngine::kZlib);
  inflater.find_seek_points(distance);
  EXPECT_TRUE(unpack(inflater, file).good);
  return inflater.take_seek_points();
}

// Points are where they should be, and from each the rest comes out.
void expect_points(Compression compression, const std::string& file, const std::string& content, uint64_t distance,
                   uint64_t most_more) {
  const std::vector<SeekPoint> points = find_points(compression, file, distance);
  uint64_t last = 0;
  for (const SeekPoint& point : points) {
    EXPECT_LE(point.offset - last, distance + most_more);
    EXPECT_GE(point.offset - last, distance / 2);
    last = point.offset;
    for (const InflateEngine engine : {InflateEngine::kZlib, InflateEngine::kFastest}) {
      const Unpacked rest = unpack_from(point, compression, file, engine);
      ASSERT_TRUE(rest.good) << rest.error.to_string();
      ASSERT_TRUE(rest.bytes == content.substr(point.offset)) << point.offset;
    }
  }
  EXPECT_LE(content.size() - last, distance + most_more);
}

class SeekPoints : public ::testing::TestWithParam<Compression> {};
INSTANTIATE_TEST_SUITE_P(, SeekPoints, ::testing::Values(Compression::kZlib, Compression::kGzip));

TEST_P(SeekPoints, LieInsideBlocksThatUnpackToMegabytes) {
  const std::string content(9 * kMiB, 'x');  // some 4 MiB a block
  const std::string file = packed(GetParam(), content);
  expect_points(GetParam(), file, content, 256 << 10, 258);
  for (const SeekPoint& point : find_points(GetParam(), file, 256 << 10)) {
    EXPECT_GT(point.num_header_bits, 0U);
    EXPECT_LE(point.header.size() + point.packed_window.size(), 700U);
  }
}

TEST_P(SeekPoints, LieInTextOfAllLevels) {
  const std::string content = text(kMiB);
  for (const int level : {1, 9}) {
    expect_points(GetParam(), packed(GetParam(), content, level), content, 100000, 258);
  }
  // In all places of blocks, also in front of their first symbols.
  expect_points(GetParam(), packed(GetParam(), content.substr(0, 40000)), content.substr(0, 40000), 523, 258);
}

TEST_P(SeekPoints, LieBetweenStoredBlocks) {
  const std::string content = noise(kMiB);
  for (const int level : {0, 6}) {
    expect_points(GetParam(), packed(GetParam(), content, level), content, 100000, 65536);
  }
}

TEST_P(SeekPoints, LieInEachOfSeveralStreams) {
  std::string content;
  std::string file;
  for (size_t size : {size_t{0}, size_t{10}, size_t{300000}, size_t{0}, size_t{70000}, size_t{60000}, size_t{50000}}) {
    const std::string part = text(size) + (size > 100000 ? noise(size) : "");
    content += part;
    file += packed(GetParam(), part);
  }
  expect_points(GetParam(), file, content, 100000, 65536);
  const auto points = find_points(GetParam(), file, 100000);
  EXPECT_TRUE(std::any_of(points.begin(), points.end(), [](const auto& point) { return point.between_streams(); }));
  EXPECT_EQ(points.back().num_streams, 6U);
}

TEST_P(SeekPoints, TheTrailerOfAStreamIsCheckedFromItsMiddleToo) {
  const std::string content = text(kMiB);
  std::string file = packed(GetParam(), content);
  const size_t first_stream = file.size();
  file += packed(GetParam(), "more");
  const auto points = find_points(GetParam(), file, 200000);
  ASSERT_GE(points.size(), 4U);
  file[first_stream - 1] ^= 1;
  for (const SeekPoint& point : points) {
    for (const InflateEngine engine : {InflateEngine::kZlib, InflateEngine::kFastest}) {
      const Unpacked rest = unpack_from(point, GetParam(), file, engine);
      EXPECT_FALSE(rest.good);
      EXPECT_THAT(rest.error.message, HasSubstr("at compressed byte 0 has"));
      // A wrong trailer is passed: what lies after it comes too.
      EXPECT_TRUE(rest.bytes == content.substr(point.offset) + "more");
    }
  }
}

TEST_P(SeekPoints, OfAnotherFileGiveErrorsAndNoCrash) {
  const std::string a = packed(GetParam(), text(300000));
  const std::string b = packed(GetParam(), text(400000).substr(100000));
  const auto points = find_points(GetParam(), a, 50000);
  for (const SeekPoint& point : points) EXPECT_FALSE(unpack_from(point, GetParam(), b).good);
  for (SeekPoint point : points) {
    point.window_bytes -= 1;
    EXPECT_THROW((void)unpack_window(point), ErrorException);
    EXPECT_THROW((void)unpack_from(point, GetParam(), a), ErrorException);
  }
  SeekPoint point = points.front();
  ASSERT_GT(point.num_header_bits, 0U);
  for (const uint32_t bits : {3U, point.num_header_bits - 8, point.num_header_bits + 8}) {
    point.num_header_bits = bits;
    point.header.resize((bits + 7) / 8);
    EXPECT_THROW((void)unpack_from(point, GetParam(), a), ErrorException) << bits;
  }
}

TEST(SeekPoint, WindowsOfAnySizeAndContentComeBack) {
  for (const size_t size : {0, 1, 1000, 32768}) {
    for (const std::string& window : {text(size), noise(size), std::string(size, 'x')}) {
      SeekPoint point;
      point.window_bytes = static_cast<uint32_t>(size);
      point.packed_window = pack_window(window);
      EXPECT_LE(point.packed_window.size(), size + 64);
      EXPECT_EQ(unpack_window(point), window);
    }
  }
}

TEST(SeekPoint, FuzzFunctionGoesOnFromEveryPointOfDamagedStreams) {
  std::vector<std::string> seeds{"", packed(Compression::kGzip, text(20000)),
                                 packed(Compression::kZlib, noise(3000) + text(9000)),
                                 packed(Compression::kGzip, std::string(100000, 'x')) +
                                     packed(Compression::kGzip, "x") + packed(Compression::kGzip, text(3000), 1),
                                 packed(Compression::kZlib, text(3000), 0) + packed(Compression::kZlib, text(300), 9)};
  test::Damage damage;
  for (const std::string& seed : seeds) {
    test::fuzz_seek_points(seed);
    for (int round = 0; round < 25 && !seed.empty(); ++round) {
      std::string bytes = seed;
      damage.flip_bits(bytes, 1 + round % 3);
      bytes.push_back(static_cast<char>(round));
      test::fuzz_seek_points(bytes);
    }
  }
}

}  // namespace
}  // namespace millrace::seek_point_test
