#include "tests/fuzz/zstd_unpacker_fuzz.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <zstd.h>

#include "millrace/formats/compression/zstd_unpacker.h"
#include "tests/fuzz/fuzz_error.h"

namespace millrace::test {
namespace {

struct Unpacked {
  std::string bytes;
  bool good;
};

// Up to the end, an error or kEnough bytes, in pieces whose sizes come from `sizes`; 0: in one piece.
constexpr size_t kEnough = 4 << 20;
Unpacked unpack_in_pieces(std::string_view bytes, uint64_t sizes) {
  ZstdUnpacker unpacker;
  Unpacked unpacked{{}, true};
  std::vector<std::byte> room(sizes == 0 ? 256 << 10 : 700);
  auto input = std::as_bytes(std::span(bytes));
  for (size_t piece = 0;;) {
    if (sizes != 0) sizes = sizes * 6364136223846793005U + 1442695040888963407U;
    if (piece == 0) {
      piece =
          sizes == 0 ? input.size() : std::min<size_t>(input.size(), 1 + (sizes >> 33) % ((sizes & 1) != 0 ? 5 : 900));
    }
    const size_t output = sizes == 0 ? room.size() : 1 + (sizes >> 40) % room.size();
    const UnpackResult result = unpacker.run(input.first(piece), std::span(room).first(output));
    require(result.num_read <= piece && result.num_written <= output);
    unpacked.bytes.append(reinterpret_cast<const char*>(room.data()), result.num_written);
    input = input.subspan(result.num_read);
    piece -= result.num_read;
    if (result.status == UnpackResult::Status::kError || unpacked.bytes.size() > kEnough) {
      unpacked.good = result.status != UnpackResult::Status::kError;
      return unpacked;
    }
    if (result.status == UnpackResult::Status::kNeedInput) {
      require(piece == 0);
      if (input.empty()) {
        unpacked.good = unpacker.finish();
        return unpacked;
      }
    } else {
      require(result.num_written == output);
    }
  }
}

}  // namespace

void fuzz_zstd_unpacker(std::string_view bytes) {
  const uint64_t sizes = bytes.empty() ? 1 : 1 + static_cast<unsigned char>(bytes.back());
  const Unpacked one = unpack_in_pieces(bytes, 0);
  const Unpacked two = unpack_in_pieces(bytes, sizes);
  if (one.bytes.size() > kEnough || two.bytes.size() > kEnough) return;
  // Of a frame that is too long to be held, how much comes before an error depends on the pieces.
  require(one.good == two.good);
  require(one.bytes.starts_with(two.bytes) || two.bytes.starts_with(one.bytes));
  require(!one.good || one.bytes == two.bytes);
  std::string whole(kEnough, '\0');
  const size_t size = ZSTD_decompress(whole.data(), whole.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(size)) {
    // A few bytes after the last frame are none to zstd either.
    require(!one.good || bytes.empty());
    return;
  }
  // zstd itself knows no dictionary, reads any window that fits, and promises nothing.
  if (one.good) require(one.bytes == whole.substr(0, size));
}

}  // namespace millrace::test
