#include "tests/fuzz/inflate_fuzz.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/formats/compression/inflate.h"
#include "tests/fuzz/fuzz_error.h"

namespace millrace::test {
namespace {

constexpr size_t kEnough = 1 << 20;  // a few bytes may unpack to gigabytes

struct Unpacked {
  std::string bytes;
  bool good;
};

// Up to the end, an error or kEnough bytes, in pieces whose sizes come from `sizes`.
Unpacked unpack_in_pieces(Inflater& inflater, std::string_view bytes, uint64_t sizes) {
  Unpacked unpacked{{}, true};
  std::array<std::byte, 512> room;
  auto input = std::as_bytes(std::span(bytes));
  for (size_t piece = 0;;) {
    sizes = sizes * 6364136223846793005U + 1442695040888963407U;
    if (piece == 0) piece = std::min<size_t>(input.size(), 1 + (sizes >> 33) % ((sizes & 1) != 0 ? 5 : 400));
    const size_t output = 1 + (sizes >> 40) % room.size();
    const Inflater::Result result = inflater.run(input.first(piece), std::span(room).first(output));
    require(result.num_read <= piece && result.num_written <= output);
    unpacked.bytes.append(reinterpret_cast<const char*>(room.data()), result.num_written);
    input = input.subspan(result.num_read);
    piece -= result.num_read;
    if (result.status == Inflater::Status::kError || unpacked.bytes.size() > kEnough) {
      unpacked.good = result.status != Inflater::Status::kError;
      return unpacked;
    }
    if (result.status == Inflater::Status::kNeedInput) {
      require(piece == 0);
      if (input.empty()) {
        unpacked.good = inflater.finish();
        return unpacked;
      }
    } else {
      require(result.num_written == output);
    }
  }
}

Unpacked unpack_in_pieces(std::string_view bytes, Compression compression, InflateEngine engine, uint64_t sizes) {
  Inflater inflater(compression, engine);
  return unpack_in_pieces(inflater, bytes, sizes);
}

}  // namespace

void fuzz_inflater(std::string_view bytes) {
  const uint64_t sizes = bytes.empty() ? 0 : static_cast<unsigned char>(bytes.back());
  for (const Compression compression : {Compression::kZlib, Compression::kGzip}) {
    const Unpacked one = unpack_in_pieces(bytes, compression, InflateEngine::kFastest, sizes);
    const Unpacked again = unpack_in_pieces(bytes, compression, InflateEngine::kFastest, sizes + 1);
    const Unpacked zlib = unpack_in_pieces(bytes, compression, InflateEngine::kZlib, sizes + 2);
    if (one.bytes.size() >= kEnough || again.bytes.size() >= kEnough || zlib.bytes.size() >= kEnough) continue;
    // How the bytes are cut changes nothing, also in front of damage.
    require(one.good == again.good && one.bytes == again.bytes);
    // zlib refuses tables of codes that leave codes unused; ISA-L goes on, and the checksum decides. Up to there both
    // give the same.
    require(one.bytes.starts_with(zlib.bytes));
    require(!zlib.good || (one.good && one.bytes == zlib.bytes));
  }
}

void fuzz_seek_points(std::string_view bytes) {
  const uint64_t sizes = bytes.empty() ? 0 : static_cast<unsigned char>(bytes.back());
  for (const Compression compression : {Compression::kZlib, Compression::kGzip}) {
    Inflater finder(compression, InflateEngine::kZlib);
    finder.find_seek_points(1 + sizes % 64 * 97 + bytes.size() / 64);  // each packs a window
    const Unpacked all = unpack_in_pieces(finder, bytes, sizes);
    if (all.bytes.size() >= kEnough) continue;
    const std::vector<SeekPoint> points = finder.take_seek_points();
    const size_t step = 1 + points.size() / 16;  // each unpacks all that follows
    for (size_t i = sizes % step; i < points.size(); i += step) {
      const SeekPoint& point = points[i];
      const std::string_view rest = std::string_view(all.bytes).substr(point.offset);
      require(unpack_window(point).size() == std::min<uint64_t>(point.stream_bytes, kWindowBytes));
      for (const InflateEngine engine : {InflateEngine::kZlib, InflateEngine::kFastest}) {
        Inflater entered(compression, point, engine);
        const Unpacked found = unpack_in_pieces(entered, bytes.substr(point.bit / 8), sizes + i);
        // ISA-L may come further before it sees damage (see fuzz_inflater).
        require(found.bytes.starts_with(rest));
        require(!all.good || (found.good && found.bytes == rest));
        require(engine == InflateEngine::kFastest || (found.good == all.good && found.bytes == rest));
      }
    }
  }
}

}  // namespace millrace::test
