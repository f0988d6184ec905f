// Compiled once for each instruction set that Highway knows here; see HWY_EXPORT at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/example/varints.cc"
#include "formats/example/varints.h"

#include <array>
#include <bit>
#include <cstring>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef MILLRACE_VARINT_STEPS_ONCE
#define MILLRACE_VARINT_STEPS_ONCE
namespace millrace {
namespace {

constexpr uint64_t kContinues = 0x8080808080808080ULL;

// For each pattern of continuation bits of eight bytes: where the bytes of the varints that end in them go, four bytes
// for each value, and how many values and bytes that is.
struct VarintStep {
  alignas(32) std::array<uint8_t, 32> shuffle;
};
struct VarintSteps {
  std::array<VarintStep, 256> steps{};
  std::array<uint8_t, 256> num_values{};
  std::array<uint8_t, 256> num_bytes{};
};

constexpr VarintSteps make_steps() {
  constexpr uint8_t kZero = 0x80;
  VarintSteps table;
  for (size_t pattern = 0; pattern < 256; ++pattern) {
    auto& shuffle = table.steps[pattern].shuffle;
    for (uint8_t& byte : shuffle) byte = kZero;
    size_t begin = 0;
    size_t count = 0;
    for (size_t byte = 0; byte < 8; ++byte) {
      if (((pattern >> byte) & 1) != 0) continue;
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

}  // namespace
}  // namespace millrace
#endif

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

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
constexpr int64_t kStep = 8;
constexpr int64_t kChunk = 64;

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

// The values of the varints that end in the eight bytes at `at`, whose continuation bits are `pattern`.
template <typename T>
HWY_INLINE void DecodeStep(const uint8_t* at, size_t pattern, T* values) {
  uint64_t eight = 0;
  std::memcpy(&eight, at, sizeof eight);
  const hn::Repartition<uint64_t, decltype(kBytes)> words;
  const auto bytes = hn::BitCast(kBytes, hn::Set(words, eight));
  const size_t vector = hn::Lanes(kBytes);
  for (size_t part = 0; part < 32; part += vector) {
    const auto shuffle = hn::Load(kBytes, kSteps.steps[pattern].shuffle.data() + part);
    const auto x = hn::BitCast(kLanes, hn::TableLookupBytesOr0(bytes, shuffle));
    // Groups of 7 bits to pairs of 14, those to 28.
    const auto pairs =
        hn::Or(hn::And(x, hn::Set(kLanes, 0x007f007fU)), hn::And(hn::ShiftRight<1>(x), hn::Set(kLanes, 0x3f803f80U)));
    StoreValues(hn::Or(hn::And(pairs, hn::Set(kLanes, 0x3fffU)),
                       hn::And(hn::ShiftRight<2>(pairs), hn::Set(kLanes, 0x0fffc000U))),
                values + part / 4);
  }
}

// 64 varints of one byte each: masks, and lengths.
template <typename T>
HWY_INLINE void Widen(const uint8_t* at, T* values) {
  const hn::Rebind<uint8_t, decltype(kLanes)> narrow;
  for (size_t i = 0; i < kChunk; i += hn::Lanes(kLanes)) {
    StoreValues(hn::PromoteTo(kLanes, hn::LoadU(narrow, at + i)), values + i);
  }
}

// Bit i: the highest bit of byte i of 64.
HWY_INLINE uint64_t HighestBits(const uint8_t* at) {
  const hn::Repartition<int8_t, decltype(kBytes)> signed_bytes;
  uint64_t all = 0;
  for (size_t i = 0; i < kChunk; i += hn::Lanes(kBytes)) {
    const auto bytes = hn::BitCast(signed_bytes, hn::LoadU(kBytes, at + i));
    uint64_t bits = 0;
    hn::StoreMaskBits(signed_bytes, hn::Lt(bytes, hn::Zero(signed_bytes)), reinterpret_cast<uint8_t*>(&bits));
    all |= bits << i;
  }
  return all;
}

// Steps through a chunk of 64 bytes while eight of them, and room for eight values, are left; the rest belongs to the
// next chunk. False: a varint of more than four bytes is next.
template <bool kMayBeLong, typename T>
HWY_INLINE bool DecodeChunk(uint64_t continues, VarintRun<T>& run) {
  const uint8_t* const end = run.at + kChunk - kStep;
  while (run.at <= end && run.last - run.values >= kStep) {
    const size_t pattern = continues & 0xff;
    // Not from a table: each step waits for where the one before ended.
    auto num_bytes = static_cast<size_t>(std::bit_width(~continues & 0xff));
    auto num_values = static_cast<size_t>(std::popcount(~continues & 0xff));
    if constexpr (kMayBeLong) {
      num_bytes = kSteps.num_bytes[pattern];
      num_values = kSteps.num_values[pattern];
      if (num_values == 0) return false;
    }
    DecodeStep(run.at, pattern, run.values);
    run.values += num_values;
    run.at += num_bytes;
    continues >>= num_bytes;
  }
  return true;
}

template <typename T>
void Decode(VarintRun<T>& result) {
  VarintRun<T> run = result;  // nothing else can point to it, so it stays in registers
  bool goes_on = true;
  while (goes_on && run.end - run.at >= kChunk && run.last - run.values >= kStep) {
    const uint64_t continues = HighestBits(run.at);
    if (continues == 0 && run.last - run.values >= kChunk) {
      Widen(run.at, run.values);
      run.values += kChunk;
      run.at += kChunk;
      continue;
    }
    const bool may_be_long = (continues & continues >> 1 & continues >> 2 & continues >> 3) != 0;
    goes_on = may_be_long ? DecodeChunk<true>(continues, run) : DecodeChunk<false>(continues, run);
  }
  while (goes_on && run.end - run.at >= kStep && run.last - run.values >= kStep) {
    uint64_t eight = 0;
    std::memcpy(&eight, run.at, sizeof eight);
    // Bit i of the pattern is the highest bit of byte i.
    const auto pattern = static_cast<size_t>((((eight & kContinues) >> 7) * 0x0102040810204080ULL) >> 56);
    if (kSteps.num_values[pattern] == 0) break;
    DecodeStep(run.at, pattern, run.values);
    run.values += kSteps.num_values[pattern];
    run.at += kSteps.num_bytes[pattern];
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

HWY_EXPORT(Decode32);
HWY_EXPORT(Decode64);

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
