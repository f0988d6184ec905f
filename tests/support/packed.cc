#include "tests/support/packed.h"

#include <algorithm>
#include <string_view>

#include "millrace/formats/compression/deflate.h"
#include "millrace/formats/compression/zstd_packer.h"

namespace millrace::test {

std::string packed(const std::string& bytes, Compression compression) {
  if (compression == Compression::kNone) return bytes;
  std::string out;
  if (compression == Compression::kZstd) {
    ZstdPacker packer(3, std::max<size_t>(bytes.size() / 7, 1));
    for (std::string_view rest = bytes; !rest.empty();) {
      const std::string_view piece = rest.substr(0, std::min<size_t>(rest.size(), 1 + bytes.size() / 29));
      packer.begin_record(piece.size(), out);
      packer.write(piece, out);
      rest.remove_prefix(piece.size());
    }
    packer.finish(out);
    return out;
  }
  Deflater deflater(compression, 6);
  deflater.write(bytes, out);
  deflater.finish(out);
  return out;
}

}  // namespace millrace::test
