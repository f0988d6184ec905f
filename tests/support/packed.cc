#include "tests/support/packed.h"

#include "formats/compression/deflate.h"

namespace millrace::test {

std::string packed(const std::string& bytes, Compression compression) {
  if (compression == Compression::kNone) return bytes;
  std::string out;
  Deflater deflater(compression, 6);
  deflater.write(bytes, out);
  deflater.finish(out);
  return out;
}

}  // namespace millrace::test
