// Compiled once for each instruction set that Highway knows here; see HWY_EXPORT at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "millrace/ops/features/cast_values.cc"
#include "millrace/ops/features/cast_values.h"

#include <bit>
#include <cstddef>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

// One at a time: the end of the values, and those among which not all have a place in int32.
template <typename From, typename To>
HWY_INLINE bool CastEach(const From* HWY_RESTRICT from, size_t count, To* HWY_RESTRICT to) {
  bool all_fit = true;
  for (size_t i = 0; i < count; ++i) {
    const bool good = fits<To>(from[i]);
    all_fit = all_fit && good;
    to[i] = good ? static_cast<To>(from[i]) : To{};
  }
  return all_fit;
}

#if HWY_TARGET == HWY_SCALAR

template <typename From, typename To>
bool Cast(const From* from, size_t count, To* to) {
  return CastEach(from, count, to);
}

#else

namespace hn = hwy::HWY_NAMESPACE;

static_assert(std::endian::native == std::endian::little, "the lower half of an int64 is the even int32 of its two");

using Tag = hn::ScalableTag<int32_t>;
using Int32s = hn::Vec<Tag>;
using HalfTag = hn::Half<Tag>;
using WideTag = hn::RepartitionToWide<Tag>;
using FloatTag = hn::Rebind<float, Tag>;
using ByteTag = hn::Rebind<uint8_t, Tag>;

// Values as int32; false where one has no place there.
HWY_INLINE bool LoadAsInt32(const int32_t* HWY_RESTRICT from, Int32s& values) {
  values = hn::LoadU(Tag(), from);
  return true;
}

HWY_INLINE bool LoadAsInt32(const int64_t* HWY_RESTRICT from, Int32s& values) {
  const WideTag d;
  const hn::RebindToUnsigned<WideTag> d_unsigned;
  const auto low = hn::LoadU(d, from);
  const auto high = hn::LoadU(d, from + hn::Lanes(d));
  values = hn::ConcatEven(Tag(), hn::BitCast(Tag(), high), hn::BitCast(Tag(), low));
  // With the least of int32 moved to 0, the upper halves are 0.
  const auto shift = hn::Set(d, int64_t{1} << 31);
  const auto moved = hn::BitCast(d_unsigned, hn::Or(hn::Add(low, shift), hn::Add(high, shift)));
  return hn::AllTrue(d_unsigned, hn::Eq(hn::ShiftRight<32>(moved), hn::Zero(d_unsigned)));
}

HWY_INLINE bool LoadAsInt32(const uint8_t* HWY_RESTRICT from, Int32s& values) {
  values = hn::PromoteTo(Tag(), hn::LoadU(ByteTag(), from));
  return true;
}

HWY_INLINE bool LoadAsInt32(const float* HWY_RESTRICT from, Int32s& values) {
  const FloatTag d;
  const auto floats = hn::LoadU(d, from);
  const auto good = hn::Lt(hn::Abs(floats), hn::Set(d, 0x1p31F));
  values = hn::ConvertTo(Tag(), hn::IfThenElseZero(good, floats));  // else undefined in plain C++
  return hn::AllTrue(d, good);
}

HWY_INLINE void StoreInt32(Int32s values, int32_t* HWY_RESTRICT to) { hn::StoreU(values, Tag(), to); }

HWY_INLINE void StoreInt32(Int32s values, int64_t* HWY_RESTRICT to) {
  const WideTag d;
  hn::StoreU(hn::PromoteTo(d, hn::LowerHalf(HalfTag(), values)), d, to);
  hn::StoreU(hn::PromoteTo(d, hn::UpperHalf(HalfTag(), values)), d, to + hn::Lanes(d));
}

HWY_INLINE void StoreInt32(Int32s values, float* HWY_RESTRICT to) {
  hn::StoreU(hn::ConvertTo(FloatTag(), values), FloatTag(), to);
}

HWY_INLINE void StoreInt32(Int32s values, uint8_t* HWY_RESTRICT to) {
  hn::StoreU(hn::DemoteTo(ByteTag(), values), ByteTag(), to);
}

// Whether what fits int32 has a place in the type that it is stored as, too.
template <typename To>
HWY_INLINE bool AllFit(Int32s values) {
  if constexpr (sizeof(To) == 1) {
    return hn::AllTrue(Tag(), hn::Eq(hn::And(values, hn::Set(Tag(), 0xff)), values));
  }
  return true;
}

// By way of int32: before AVX-512 nothing converts vectors of int64 to float, or back. Whatever has a place there comes
// out as if cast at once: between integers nothing is rounded, and a float is on either way only cut.
template <typename From, typename To>
bool Cast(const From* HWY_RESTRICT from, size_t count, To* HWY_RESTRICT to) {
  const size_t lanes = hn::Lanes(Tag());
  bool all_fit = true;
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    Int32s values;
    if (HWY_LIKELY(LoadAsInt32(from + i, values) && AllFit<To>(values))) {
      StoreInt32(values, to + i);
    } else {
      all_fit = CastEach(from + i, lanes, to + i) && all_fit;
    }
  }
  return CastEach(from + i, count - i, to + i) && all_fit;
}

#endif

bool CastInt32ToInt64(const int32_t* from, size_t count, int64_t* to) { return Cast(from, count, to); }
bool CastInt32ToFloat(const int32_t* from, size_t count, float* to) { return Cast(from, count, to); }
bool CastInt64ToInt32(const int64_t* from, size_t count, int32_t* to) { return Cast(from, count, to); }
bool CastInt64ToFloat(const int64_t* from, size_t count, float* to) { return Cast(from, count, to); }
bool CastFloatToInt32(const float* from, size_t count, int32_t* to) { return Cast(from, count, to); }
bool CastFloatToInt64(const float* from, size_t count, int64_t* to) { return Cast(from, count, to); }
bool CastUint8ToInt32(const uint8_t* from, size_t count, int32_t* to) { return Cast(from, count, to); }
bool CastUint8ToInt64(const uint8_t* from, size_t count, int64_t* to) { return Cast(from, count, to); }
bool CastUint8ToFloat(const uint8_t* from, size_t count, float* to) { return Cast(from, count, to); }
bool CastInt32ToUint8(const int32_t* from, size_t count, uint8_t* to) { return Cast(from, count, to); }
bool CastInt64ToUint8(const int64_t* from, size_t count, uint8_t* to) { return Cast(from, count, to); }
bool CastFloatToUint8(const float* from, size_t count, uint8_t* to) { return Cast(from, count, to); }

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace {

HWY_EXPORT(CastInt32ToInt64);
HWY_EXPORT(CastInt32ToFloat);
HWY_EXPORT(CastInt64ToInt32);
HWY_EXPORT(CastInt64ToFloat);
HWY_EXPORT(CastFloatToInt32);
HWY_EXPORT(CastFloatToInt64);
HWY_EXPORT(CastUint8ToInt32);
HWY_EXPORT(CastUint8ToInt64);
HWY_EXPORT(CastUint8ToFloat);
HWY_EXPORT(CastInt32ToUint8);
HWY_EXPORT(CastInt64ToUint8);
HWY_EXPORT(CastFloatToUint8);

bool cast_values(std::span<const int32_t> from, std::span<int64_t> to) {
  return HWY_DYNAMIC_DISPATCH(CastInt32ToInt64)(from.data(), from.size(), to.data());
}

bool cast_values(std::span<const int32_t> from, std::span<float> to) {
  return HWY_DYNAMIC_DISPATCH(CastInt32ToFloat)(from.data(), from.size(), to.data());
}

bool cast_values(std::span<const int64_t> from, std::span<int32_t> to) {
  return HWY_DYNAMIC_DISPATCH(CastInt64ToInt32)(from.data(), from.size(), to.data());
}

bool cast_values(std::span<const int64_t> from, std::span<float> to) {
  return HWY_DYNAMIC_DISPATCH(CastInt64ToFloat)(from.data(), from.size(), to.data());
}

bool cast_values(std::span<const float> from, std::span<int32_t> to) {
  return HWY_DYNAMIC_DISPATCH(CastFloatToInt32)(from.data(), from.size(), to.data());
}

bool cast_values(std::span<const float> from, std::span<int64_t> to) {
  return HWY_DYNAMIC_DISPATCH(CastFloatToInt64)(from.data(), from.size(), to.data());
}

bool cast_values(std::span<const uint8_t> from, std::span<int32_t> to) {
  return HWY_DYNAMIC_DISPATCH(CastUint8ToInt32)(from.data(), from.size(), to.data());
}

bool cast_values(std::span<const uint8_t> from, std::span<int64_t> to) {
  return HWY_DYNAMIC_DISPATCH(CastUint8ToInt64)(from.data(), from.size(), to.data());
}

bool cast_values(std::span<const uint8_t> from, std::span<float> to) {
  return HWY_DYNAMIC_DISPATCH(CastUint8ToFloat)(from.data(), from.size(), to.data());
}

bool cast_values(std::span<const int32_t> from, std::span<uint8_t> to) {
  return HWY_DYNAMIC_DISPATCH(CastInt32ToUint8)(from.data(), from.size(), to.data());
}

bool cast_values(std::span<const int64_t> from, std::span<uint8_t> to) {
  return HWY_DYNAMIC_DISPATCH(CastInt64ToUint8)(from.data(), from.size(), to.data());
}

bool cast_values(std::span<const float> from, std::span<uint8_t> to) {
  return HWY_DYNAMIC_DISPATCH(CastFloatToUint8)(from.data(), from.size(), to.data());
}

}  // namespace millrace
#endif
