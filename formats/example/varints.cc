// Compiled once for each instruction set that Highway knows here; see HWY_EXPORT at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "millrace/formats/example/varints.cc"
#include "millrace/formats/example/varints.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef MILLRACE_VARINT_STEPS_ONCE
#define MILLRACE_VARINT_STEPS_ONCE
namespace millrace {
namespace {

// For each pattern of eight bytes, bit i set where a varint ends with byte i: where the bytes of the varints that end
// in them go, four bytes for each value, and how many values and bytes that is.
struct VarintStep {
  alignas(32) std::array<uint8_t, 32> shuffle;
};
struct VarintSteps {
  std::array<VarintStep, 256> steps{};
  std::array<uint8_t, 256> num_values{};
  std::array<uint8_t, 256> num_bytes{};
};

constexpr uint8_t kZero = 0x80;  // of a shuffle: a byte that becomes 0

constexpr VarintSteps make_steps() {
  VarintSteps table;
  for (size_t pattern = 0; pattern < 256; ++pattern) {
    auto& shuffle = table.steps[pattern].shuffle;
    for (uint8_t& byte : shuffle) byte = kZero;
    size_t begin = 0;
    size_t count = 0;
    for (size_t byte = 0; byte < 8; ++byte) {
      if (((pattern >> byte) & 1) == 0) continue;
      if (byte - begin >= 4) break;  // five bytes or more: one at a time
      for (size_t i = begin; i <= byte; ++i) shuffle[4 * count + i - begin] = static_cast<uint8_t>(i);
      ++count;
      begin = byte + 1;
    }
    table.num_values[pattern] = static_cast<uint8_t>(count);
    table.num_bytes[pattern] = static_cast<uint8_t>(begin);
  }
  return table;
}

constexpr VarintSteps kSteps = make_steps();

// Where 16 bytes go that become so many values of `kSize` bytes.
template <size_t kSize>
constexpr std::array<uint8_t, 16 * kSize> make_spread() {
  std::array<uint8_t, 16 * kSize> shuffle{};
  for (uint8_t& byte : shuffle) byte = kZero;
  for (size_t value = 0; value < 16; ++value) shuffle[value * kSize] = static_cast<uint8_t>(value);
  return shuffle;
}
template <size_t kSize>
alignas(32) constexpr std::array<uint8_t, 16 * kSize> kSpread = make_spread<kSize>();

}  // namespace
}  // namespace millrace
#endif

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

HWY_INLINE uint64_t EightBytes(const uint8_t* at) {
  uint64_t eight = 0;
  std::memcpy(&eight, at, sizeof eight);
  return eight;
}

// The bytes with which no varint ends have their highest bit set.
constexpr uint64_t kContinues = 0x8080808080808080ULL;

HWY_INLINE size_t CountShort(const uint8_t* at, const uint8_t* end) {
  size_t count = 0;
  for (; end - at >= 8; at += 8) count += static_cast<size_t>(std::popcount(~EightBytes(at) & kContinues));
  for (; at != end; ++at) count += *at < 0x80 ? 1 : 0;
  return count;
}

#if HWY_TARGET == HWY_SCALAR

size_t Count(const uint8_t* at, const uint8_t* end) { return CountShort(at, end); }

template <typename T>
void Decode(VarintRun<T>& run) {
  while (run.end - run.at >= 4 && run.values < run.last) {
    uint32_t value = run.at[0] & 0x7fU;
    int size = 1;
    while (size < 4 && run.at[size - 1] >= 0x80) {
      value |= (run.at[size] & 0x7fU) << (7 * size);
      ++size;
    }
    if (run.at[size - 1] >= 0x80) return;
    *run.values++ = static_cast<T>(value);
    run.at += size;
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;

// Eight values at a time go to 32 bytes of lanes: in one vector, or in two of 16 bytes.
constexpr hn::CappedTag<uint8_t, 32> kBytes;
constexpr hn::Repartition<uint32_t, decltype(kBytes)> kLanes;
constexpr size_t kStep = 8;
constexpr size_t kChunk = 64;
constexpr size_t kStepsAtOnce = 8;
// A window is 56 bytes: varints of up to two bytes are decoded in so many steps, of at least 7 bytes each.
constexpr uint64_t kWindowBits = (uint64_t{1} << 56) - 1;

template <class V>
HWY_INLINE void StoreValues(V lanes, int32_t* out) {
  hn::StoreU(lanes, kLanes, reinterpret_cast<uint32_t*>(out));
}

template <class V>
HWY_INLINE void StoreValues(V lanes, int64_t* out) {
  const hn::Repartition<uint64_t, decltype(kLanes)> wide;
  const hn::Half<decltype(kLanes)> half;
  auto* to = reinterpret_cast<uint64_t*>(out);
  hn::StoreU(hn::PromoteTo(wide, hn::LowerHalf(half, lanes)), wide, to);
  hn::StoreU(hn::PromoteTo(wide, hn::UpperHalf(half, lanes)), wide, to + hn::Lanes(wide));
}

// Joins the four groups of 7 bits of each lane: bytes to pairs of 14 bits, those to 28.
template <class V>
HWY_INLINE V JoinGroups(V lanes) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  const __m256i seven = _mm256_and_si256(lanes.raw, _mm256_set1_epi8(0x7f));
  const __m256i fourteen = _mm256_maddubs_epi16(_mm256_set1_epi16(static_cast<int16_t>(0x8001)), seven);
  return V{_mm256_madd_epi16(fourteen, _mm256_set1_epi32(0x40000001))};
#else
  const auto fourteen = hn::Or(hn::And(lanes, hn::Set(kLanes, 0x007f007fU)),
                               hn::And(hn::ShiftRight<1>(lanes), hn::Set(kLanes, 0x3f803f80U)));
  return hn::Or(hn::And(fourteen, hn::Set(kLanes, 0x3fffU)),
                hn::And(hn::ShiftRight<2>(fourteen), hn::Set(kLanes, 0x0fffc000U)));
#endif
}

// The values of the varints that end in `eight` bytes, in the places that `pattern` says.
template <typename T>
HWY_INLINE void DecodeStep(uint64_t eight, size_t pattern, T* values) {
  const hn::Repartition<uint64_t, decltype(kBytes)> words;
  const auto bytes = hn::BitCast(kBytes, hn::Set(words, eight));
  const size_t vector = hn::Lanes(kBytes);
  for (size_t part = 0; part < 32; part += vector) {
    const auto shuffle = hn::Load(kBytes, kSteps.steps[pattern].shuffle.data() + part);
    const auto lanes = hn::BitCast(kLanes, hn::TableLookupBytesOr0(bytes, shuffle));
    StoreValues(JoinGroups(lanes), values + part / 4);
  }
}

// As many varints of one byte each as a chunk has bytes: masks, and lengths.
template <typename T>
HWY_INLINE void Widen(const uint8_t* at, T* values) {
  constexpr size_t kSixteen = 16;
  const hn::Repartition<std::make_unsigned_t<T>, decltype(kBytes)> lanes;
  const size_t step = hn::Lanes(lanes);
  for (size_t i = 0; i < kChunk; i += kSixteen) {
    const auto bytes = hn::LoadDup128(kBytes, at + i);
    for (size_t value = 0; value < kSixteen; value += step) {
      const auto shuffle = hn::Load(kBytes, kSpread<sizeof(T)>.data() + value * sizeof(T));
      hn::StoreU(hn::BitCast(lanes, hn::TableLookupBytesOr0(bytes, shuffle)), lanes,
                 reinterpret_cast<hn::TFromD<decltype(lanes)>*>(values + i + value));
    }
  }
}

// Bit i: whether a varint ends with byte i of 64.
HWY_INLINE uint64_t EndsOfChunk(const uint8_t* at) {
  const hn::Repartition<int8_t, decltype(kBytes)> signed_bytes;
  uint64_t continues = 0;
  for (size_t i = 0; i < kChunk; i += hn::Lanes(kBytes)) {
    const auto bytes = hn::BitCast(signed_bytes, hn::LoadU(kBytes, at + i));
    uint64_t bits = 0;
    hn::StoreMaskBits(signed_bytes, hn::Lt(bytes, hn::Zero(signed_bytes)), reinterpret_cast<uint8_t*>(&bits));
    continues |= bits << i;
  }
  return ~continues;
}

// The same of 8.
HWY_INLINE uint64_t EndsOfEight(uint64_t eight) { return (((~eight & kContinues) >> 7) * 0x0102040810204080ULL) >> 56; }

size_t Count(const uint8_t* at, const uint8_t* end) {
  size_t count = 0;
  for (; end - at >= static_cast<std::ptrdiff_t>(kChunk); at += kChunk) {
    count += static_cast<size_t>(std::popcount(EndsOfChunk(at)));
  }
  return count + CountShort(at, end);
}

// Whether a varint of more than four bytes is among those that end, by the bits `ends`, in a window, or begins there.
HWY_INLINE bool HasLong(uint64_t ends) {
  const uint64_t continues = ~ends & kWindowBits;
  return (continues & continues >> 1 & continues >> 2 & continues >> 3) != 0;
}

// Decodes a window, or as many varints of one byte each as a chunk has bytes. False where there is not that much, no
// room for the values, or a long varint.
template <typename T>
HWY_INLINE bool DecodeWindow(VarintRun<T>& run) {
  if (run.end - run.at < static_cast<int64_t>(kChunk)) return false;
  const uint64_t chunk = EndsOfChunk(run.at);
  const auto room = static_cast<size_t>(run.last - run.values);
  if (chunk == ~uint64_t{0} && room >= kChunk) {
    Widen(run.at, run.values);
    run.values += kChunk;
    run.at += kChunk;
    return true;
  }
  const uint64_t window = chunk & kWindowBits;
  const auto count = static_cast<size_t>(std::popcount(window));
  if (room < count + kStep || HasLong(window)) return false;
  // Where the next window begins follows from this one's bits, so that its steps need not wait for those here.
  const uint8_t* at = run.at;
  T* values = run.values;
  run.at += 64 - std::countl_zero(window);
  run.values += count;
  const auto step = [&at, &values](uint64_t ends) HWY_ATTR {
    const uint64_t pattern = ends & 0xff;
    DecodeStep(EightBytes(at), pattern, values);
    // Not from a table: each step waits for where the one before ended.
    const uint64_t num_bytes = 64 - static_cast<uint64_t>(std::countl_zero(pattern));
    values += std::popcount(pattern);
    at += num_bytes;
    return ends >> num_bytes;
  };
  uint64_t left = window;
#pragma GCC unroll 8
  for (size_t i = 0; i < kStepsAtOnce; ++i) left = step(left);
  while (left != 0) left = step(left);  // of three and four bytes some are more
  return true;
}

// How far the steps of a window go follows from a count of leading zeros, for which the compiler may not take the
// instruction that does so in one cycle where it knows of AVX2 alone. Highway's AVX2 is for machines that have it.
#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2 && HWY_COMPILER_GCC_ACTUAL
template <typename T>
__attribute__((target("lzcnt"))) void Decode(VarintRun<T>& result) {
#else
template <typename T>
void Decode(VarintRun<T>& result) {
#endif
  VarintRun<T> run = result;  // nothing else can point to it, so it stays in registers
  const auto goes_on = [&run](size_t bytes) {
    return run.end - run.at >= static_cast<int64_t>(bytes) && run.last - run.values >= static_cast<int64_t>(kStep);
  };
  size_t count = 1;  // of a step; 0: a long varint is next
  while (count > 0 && goes_on(kStep)) {
    while (DecodeWindow(run)) {
    }
    // What windows leave: the last bytes and values, and what is before a long varint.
    for (size_t step = 0; step < kStepsAtOnce && goes_on(kStep); ++step) {
      const uint64_t eight = EightBytes(run.at);
      const size_t pattern = EndsOfEight(eight);
      count = kSteps.num_values[pattern];
      if (count == 0) break;
      DecodeStep(eight, pattern, run.values);
      run.values += count;
      run.at += kSteps.num_bytes[pattern];
    }
  }
  result = run;
}

#endif

void Decode32(VarintRun<int32_t>& run) { Decode(run); }
void Decode64(VarintRun<int64_t>& run) { Decode(run); }

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace {

HWY_EXPORT(Count);
HWY_EXPORT(Decode32);
HWY_EXPORT(Decode64);

size_t count_varints(std::string_view bytes) {
  const auto* const at = reinterpret_cast<const uint8_t*>(bytes.data());
  return HWY_DYNAMIC_DISPATCH(Count)(at, at + bytes.size());
}

void decode_varints_portable(VarintRun<int32_t>& run) { HWY_DYNAMIC_DISPATCH(Decode32)(run); }
void decode_varints_portable(VarintRun<int64_t>& run) { HWY_DYNAMIC_DISPATCH(Decode64)(run); }

void decode_varints(VarintRun<int32_t>& run) {
  has_avx512_varints() ? decode_varints_avx512(run) : decode_varints_portable(run);
}

void decode_varints(VarintRun<int64_t>& run) {
  has_avx512_varints() ? decode_varints_avx512(run) : decode_varints_portable(run);
}

}  // namespace millrace
#endif
