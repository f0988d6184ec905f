// Compiled once for each instruction set that Highway knows here; see HWY_EXPORT at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "formats/example/varints.cc"
#include "formats/example/varints.h"

#include <array>
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
  alignas(16) std::array<uint8_t, 32> shuffle;
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

template <typename T>
void Decode(VarintRun<T>& run) {
  constexpr hn::FixedTag<uint8_t, 16> d8;
  constexpr hn::FixedTag<uint32_t, 4> d32;
  constexpr hn::FixedTag<uint64_t, 2> d64;
  constexpr int64_t kStep = 8;
  const auto group0 = hn::Set(d32, 0x7fU);
  const auto group1 = hn::Set(d32, 0x7fU << 7);
  const auto group2 = hn::Set(d32, 0x7fU << 14);
  const auto group3 = hn::Set(d32, 0x7fU << 21);
  const uint8_t* at = run.at;
  T* values = run.values;
  while (run.end - at >= kStep && run.last - values >= kStep) {
    uint64_t eight = 0;
    std::memcpy(&eight, at, sizeof eight);
    const uint64_t continues = eight & kContinues;
    // Bit i of the pattern is the highest bit of byte i.
    const auto pattern = static_cast<size_t>(((continues >> 7) * 0x0102040810204080ULL) >> 56);
    if (kSteps.num_values[pattern] == 0) break;
    const auto bytes = hn::BitCast(d8, hn::Set(d64, eight));
    const uint8_t* shuffle = kSteps.steps[pattern].shuffle.data();
    const auto join = [&](auto lanes) {
      const auto x = hn::BitCast(d32, lanes);
      return hn::Or(hn::Or(hn::And(x, group0), hn::And(hn::ShiftRight<1>(x), group1)),
                    hn::Or(hn::And(hn::ShiftRight<2>(x), group2), hn::And(hn::ShiftRight<3>(x), group3)));
    };
    const auto low = join(hn::TableLookupBytesOr0(bytes, hn::Load(d8, shuffle)));
    const auto high = join(hn::TableLookupBytesOr0(bytes, hn::Load(d8, shuffle + 16)));
    if constexpr (sizeof(T) == 4) {
      auto* out = reinterpret_cast<uint32_t*>(values);
      hn::StoreU(low, d32, out);
      hn::StoreU(high, d32, out + 4);
    } else {
      auto* out = reinterpret_cast<uint64_t*>(values);
      const auto zero = hn::Zero(d32);
      hn::StoreU(hn::BitCast(d64, hn::InterleaveLower(d32, low, zero)), d64, out);
      hn::StoreU(hn::BitCast(d64, hn::InterleaveUpper(d32, low, zero)), d64, out + 2);
      hn::StoreU(hn::BitCast(d64, hn::InterleaveLower(d32, high, zero)), d64, out + 4);
      hn::StoreU(hn::BitCast(d64, hn::InterleaveUpper(d32, high, zero)), d64, out + 6);
    }
    values += kSteps.num_values[pattern];
    at += kSteps.num_bytes[pattern];
  }
  run.at = at;
  run.values = values;
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
