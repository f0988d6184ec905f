// The widest form of decode_varints, for processors with AVX-512 VBMI2 (Ice Lake, Zen 4 and later): `vpcompressb` lists
// where varints end, `vpermb` brings the bytes of 16 varints into 16 lanes. Highway has no target that may use both
// with every compiler that builds this, hence intrinsics; every function here carries its target, so that the rest of
// the program stays portable.
#include "millrace/formats/example/varints.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <array>

// GCC 12 takes the undefined operands of its own intrinsics for a mistake (its bug 105593).
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <immintrin.h>

#define MILLRACE_AVX512 __attribute__((target("avx512f,avx512bw,avx512vbmi,avx512vbmi2,bmi,bmi2,lzcnt,popcnt")))

namespace millrace {
namespace {

constexpr int64_t kChunk = 64;
constexpr int64_t kGroup = 16;

MILLRACE_AVX512 inline __m512i byte_numbers(int first) {
  alignas(64) static constexpr auto kNumbers = [] {
    std::array<int8_t, 64> numbers{};
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int8_t>(i);
    return numbers;
  }();
  return _mm512_add_epi8(_mm512_load_si512(kNumbers.data()), _mm512_set1_epi8(static_cast<char>(first)));
}

MILLRACE_AVX512 inline void store(int32_t* out, __m512i values, int64_t count) {
  if (count >= kGroup) {
    _mm512_storeu_si512(out, values);
  } else {
    _mm512_mask_storeu_epi32(out, static_cast<__mmask16>((1U << count) - 1), values);
  }
}

MILLRACE_AVX512 inline void store(int64_t* out, __m512i values, int64_t count) {
  const __m512i low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(values));
  const __m512i high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(values, 1));
  if (count >= kGroup) {
    _mm512_storeu_si512(out, low);
    _mm512_storeu_si512(out + 8, high);
  } else {
    const uint32_t mask = (1U << count) - 1;
    _mm512_mask_storeu_epi64(out, static_cast<__mmask8>(mask), low);
    _mm512_mask_storeu_epi64(out + 8, static_cast<__mmask8>(mask >> 8), high);
  }
}

// The group of 16 bytes as 16 lanes of 32 bits.
template <int group>
MILLRACE_AVX512 inline __m512i lanes_of(__m512i bytes) {
  return _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32(bytes, group));
}

// Varints number 16 * group and on: those that end at the bytes `ends`, each shifted by what its window of four bytes
// holds of the varints before.
template <typename T, int group>
MILLRACE_AVX512 inline void decode_group(__m512i bytes, __m512i ends, __m512i shifts, int64_t count, T* out) {
  if (count <= group * kGroup) return;
  // Byte i of a lane: the index of the (3 - i)-th byte before the varint's end.
  const __m512i window = _mm512_add_epi8(
      _mm512_shuffle_epi8(lanes_of<group>(ends), _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0x00000000)),
      _mm512_set1_epi32(0x00fffefd));
  const __m512i own = _mm512_srlv_epi32(_mm512_permutexvar_epi8(window, bytes), lanes_of<group>(shifts));
  // Joins the groups of 7 bits: bytes to pairs of 14 bits, those to 28.
  const __m512i seven = _mm512_and_si512(own, _mm512_set1_epi8(0x7f));
  const __m512i fourteen = _mm512_maddubs_epi16(_mm512_set1_epi16(static_cast<int16_t>(0x8001)), seven);
  const __m512i joined = _mm512_madd_epi16(fourteen, _mm512_set1_epi32(0x40000001));
  store(out + group * kGroup, joined, count - group * kGroup);
}

// 64 varints of one byte each: masks, and lengths.
MILLRACE_AVX512 inline void widen(__m512i bytes, int32_t* out) {
  _mm512_storeu_si512(out, lanes_of<0>(bytes));
  _mm512_storeu_si512(out + 16, lanes_of<1>(bytes));
  _mm512_storeu_si512(out + 32, lanes_of<2>(bytes));
  _mm512_storeu_si512(out + 48, lanes_of<3>(bytes));
}

MILLRACE_AVX512 inline void widen(__m512i bytes, int64_t* out) {
  store(out, lanes_of<0>(bytes), kGroup);
  store(out + 16, lanes_of<1>(bytes), kGroup);
  store(out + 32, lanes_of<2>(bytes), kGroup);
  store(out + 48, lanes_of<3>(bytes), kGroup);
}

template <typename T>
MILLRACE_AVX512 void decode(VarintRun<T>& result) {
  VarintRun<T> run = result;  // nothing else can point to it, so it stays in registers
  const __m512i numbers = byte_numbers(0);
  const __m512i numbers_before = byte_numbers(-1);
  const __m512i four_bytes = _mm512_set1_epi8(32);
  while (run.at != run.end && run.values != run.last) {
    const int64_t left = run.end - run.at;
    const __mmask64 loaded = left >= kChunk ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
    const __m512i bytes = _mm512_maskz_loadu_epi8(loaded, run.at);
    const uint64_t continues = _mm512_movepi8_mask(bytes);
    if (continues == 0 && left >= kChunk && run.last - run.values >= kChunk) {
      widen(bytes, run.values);
      run.values += kChunk;
      run.at += kChunk;
      continue;
    }
    uint64_t end_bits = ~continues & loaded;
    // Four bytes that all go on: a varint of more than four, which is for the caller.
    const uint64_t is_long = continues & continues >> 1 & continues >> 2 & continues >> 3;
    if (is_long != 0) end_bits &= _blsmsk_u64(is_long) >> 1;
    const int64_t room = run.last - run.values;
    int64_t count = _mm_popcnt_u64(end_bits);
    if (count > room) {
      end_bits &= _blsmsk_u64(_pdep_u64(uint64_t{1} << (room - 1), end_bits));
      count = room;
    }
    if (count == 0) break;
    const __m512i ends = _mm512_maskz_compress_epi8(end_bits, numbers);
    const __m512i ends_before = _mm512_mask_permutexvar_epi8(_mm512_set1_epi8(-1), ~__mmask64{1}, numbers_before, ends);
    // 32 - 8 * size; what is after the last end is not used.
    const __m512i sizes = _mm512_sub_epi8(ends, ends_before);
    const __m512i shifts = _mm512_sub_epi8(four_bytes, _mm512_slli_epi16(sizes, 3));
    decode_group<T, 0>(bytes, ends, shifts, count, run.values);
    decode_group<T, 1>(bytes, ends, shifts, count, run.values);
    decode_group<T, 2>(bytes, ends, shifts, count, run.values);
    decode_group<T, 3>(bytes, ends, shifts, count, run.values);
    run.values += count;
    run.at += kChunk - static_cast<int64_t>(_lzcnt_u64(end_bits));
  }
  result = run;
}

}  // namespace

bool has_avx512_varints() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
                          __builtin_cpu_supports("bmi2");
  return has;
}

void decode_varints_avx512(VarintRun<int32_t>& run) { decode(run); }
void decode_varints_avx512(VarintRun<int64_t>& run) { decode(run); }

}  // namespace millrace

#pragma GCC diagnostic pop

#else

namespace millrace {

bool has_avx512_varints() { return false; }
void decode_varints_avx512(VarintRun<int32_t>&) {}
void decode_varints_avx512(VarintRun<int64_t>&) {}

}  // namespace millrace

#endif
