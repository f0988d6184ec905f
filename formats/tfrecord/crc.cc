#include "millrace/formats/tfrecord/crc.h"

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
#include <wmmintrin.h>
#endif

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little, "TFRecord fields are read as they lie in memory");

// Times x^count modulo the polynomial, bits reversed.
constexpr uint32_t times_x(uint32_t crc, size_t count) {
  for (; count > 0; --count) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
  return crc;
}

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) table[byte] = times_x(byte, 8);
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

#if defined(__x86_64__)
// Functions `…_register` take and return registers: CRCs that are not inverted.

// The loop must lie in one line of the cache, so the function does not become a part of another.
__attribute__((target("sse4.2"), aligned(64), noinline)) uint32_t one_stream_register(const char* data, size_t size,
                                                                                      uint64_t crc) {
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
  return low;
}

__attribute__((target("sse4.2"))) uint32_t crc32c_of_word(uint64_t word) {
  return ~static_cast<uint32_t>(_mm_crc32_u64(~uint32_t{0}, word));
}
#endif

#ifdef MILLRACE_HAVE_ISAL
uint32_t isal_register(std::string_view bytes, uint32_t crc) {
  constexpr size_t kLargestCall = size_t{1} << 30;  // its length is an int
  while (!bytes.empty()) {
    const size_t size = std::min(bytes.size(), kLargestCall);
    auto* data = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));  // only read
    crc = crc32_iscsi(data, static_cast<int>(size), crc);
    bytes.remove_prefix(size);
  }
  return crc;
}

#if defined(__x86_64__)
// From the second generation of AVX-512 on, ISA-L goes through 256 bytes at a time, below 512 bytes through 128, and
// through what is left piece by piece, each after the one before. A stream of its own that begins with a register of 0
// waits for nothing: it goes on while the next record is begun (docs/decisions/the_tail_of_a_crc.md).
constexpr size_t kWideStep = 256;
constexpr size_t step_of_isal(size_t size) { return size < 2 * kWideStep ? kWideStep / 2 : kWideStep; }
constexpr size_t kShortestTail = 48;  // bytes; to join fewer takes longer than ISA-L does

// ISA-L asks for more than that; a wrong answer costs time only.
bool isal_has_wide_steps() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("pclmul");
}

// x^(8 n - 33) modulo the polynomial, bits reversed, for n from 5 on: what a register is multiplied by to go on over n
// bytes of 0. 32 of the 33 are the ones that `_mm_crc32_u64` multiplies by, the last comes from the bits being
// reversed: a product of 32 and 32 of them has 63 (Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32
// Instruction", Intel 2011).
constexpr size_t kFirstPower = 5;
constexpr std::array<uint32_t, kWideStep> make_powers() {
  std::array<uint32_t, kWideStep> powers{};
  constexpr uint32_t kOne = 0x80000000U;  // x^0
  powers[kFirstPower] = times_x(kOne, 8 * kFirstPower - 33);
  for (size_t n = kFirstPower + 1; n < powers.size(); ++n) powers[n] = times_x(powers[n - 1], 8);
  return powers;
}
constexpr std::array<uint32_t, kWideStep> kPowers = make_powers();
static_assert(kShortestTail >= kFirstPower);

__attribute__((target("sse4.2,pclmul"))) uint32_t after_zeros_register(uint32_t crc, size_t zeros) {
  const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi32_si128(static_cast<int>(crc)),
                                               _mm_cvtsi32_si128(static_cast<int>(kPowers[zeros])), 0);
  return static_cast<uint32_t>(_mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(product))));
}
#endif

// ISA-L interleaves three streams or multiplies without carries; below this size getting there costs more than one
// stream does.
constexpr size_t kOneStreamBelow = 200;

uint32_t crc32c_isal(std::string_view bytes, uint32_t before) {
#if defined(__x86_64__)
  if (isal_has_wide_steps()) {
    if (bytes.size() < kWideStep) return ~one_stream_register(bytes.data(), bytes.size(), ~before);
    const size_t tail = bytes.size() % step_of_isal(bytes.size());
    if (tail >= kShortestTail) {
      bytes.remove_suffix(tail);
      const uint32_t crc = after_zeros_register(isal_register(bytes, ~before), tail);
      return ~(crc ^ one_stream_register(bytes.data() + bytes.size(), tail, 0));
    }
  }
#endif
  return ~isal_register(bytes, ~before);
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
  if (__builtin_cpu_supports("sse4.2")) return ~one_stream_register(bytes.data(), bytes.size(), ~before);
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
