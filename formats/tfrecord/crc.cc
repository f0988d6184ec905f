#include "formats/tfrecord/crc.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>

#ifdef MILLRACE_HAVE_ISAL
#include <isa-l/crc.h>
#endif
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little, "TFRecord fields are read as they lie in memory");

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t crc32c_one_stream(const char* data, size_t size, uint32_t before) {
  uint64_t crc = ~before;
  for (; size >= 8; size -= 8, data += 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    crc = _mm_crc32_u64(crc, word);
  }
  auto low = static_cast<uint32_t>(crc);
  if ((size & 4) != 0) {
    uint32_t word;
    std::memcpy(&word, data, 4);
    low = _mm_crc32_u32(low, word);
    data += 4;
  }
  for (size &= 3; size > 0; --size) low = _mm_crc32_u8(low, static_cast<unsigned char>(*data++));
  return ~low;
}

__attribute__((target("sse4.2"))) uint32_t crc32c_of_word(uint64_t word) {
  return ~static_cast<uint32_t>(_mm_crc32_u64(~uint32_t{0}, word));
}
#endif

#ifdef MILLRACE_HAVE_ISAL
// ISA-L interleaves three streams or multiplies without carries; below this size getting there costs more than one
// stream does.
constexpr size_t kOneStreamBelow = 200;

uint32_t crc32c_isal(std::string_view bytes, uint32_t before) {
  constexpr size_t kLargestCall = size_t{1} << 30;  // its length is an int
  uint32_t crc = ~before;
  while (!bytes.empty()) {
    const size_t size = std::min(bytes.size(), kLargestCall);
    auto* data = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));  // only read
    crc = crc32_iscsi(data, static_cast<int>(size), crc);
    bytes.remove_prefix(size);
  }
  return ~crc;
}
#endif

}  // namespace

uint32_t crc32c_portable(std::string_view bytes, uint32_t before) {
  uint32_t crc = ~before;
  for (const char c : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

uint32_t crc32c(std::string_view bytes, uint32_t before) {
#ifdef MILLRACE_HAVE_ISAL
  if (bytes.size() >= kOneStreamBelow) return crc32c_isal(bytes, before);
#endif
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return crc32c_one_stream(bytes.data(), bytes.size(), before);
#endif
  return crc32c_portable(bytes, before);
}

uint32_t masked_crc32c_of_length(uint64_t length) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return mask_crc(crc32c_of_word(length));
#endif
  return mask_crc(crc32c_portable({reinterpret_cast<const char*>(&length), sizeof(length)}));
}

}  // namespace millrace
