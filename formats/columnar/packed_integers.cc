// Compiled once for each instruction set that Highway knows here; see HWY_EXPORT at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "millrace/formats/columnar/packed_integers.cc"
#include "millrace/formats/columnar/packed_integers.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The layout: a byte with the width, for widths below sizeof(T) the least value, then the values or differences.

template <typename T>
HWY_INLINE void FindRange(const T* HWY_RESTRICT values, size_t count, T& least, T& most) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  least = most = values[0];
  size_t i = 0;
  auto low = hn::Set(d, least);
  auto high = low;
  for (; i + lanes <= count; i += lanes) {
    const auto some = hn::LoadU(d, values + i);
    low = hn::Min(low, some);
    high = hn::Max(high, some);
  }
  least = hn::GetLane(hn::MinOfLanes(d, low));
  most = hn::GetLane(hn::MaxOfLanes(d, high));
  for (; i < count; ++i) {
    least = std::min(least, values[i]);
    most = std::max(most, values[i]);
  }
}

template <typename Narrow, typename T>
HWY_INLINE void PackAs(const T* HWY_RESTRICT values, size_t count, T least, std::byte* HWY_RESTRICT out) {
  using Unsigned = std::make_unsigned_t<T>;
  for (size_t i = 0; i < count; ++i) {
    const auto difference = static_cast<Narrow>(static_cast<Unsigned>(values[i]) - static_cast<Unsigned>(least));
    std::memcpy(out + i * sizeof difference, &difference, sizeof difference);
  }
}

template <typename T>
size_t Pack(const T* values, size_t count, std::byte* out) {
  using Unsigned = std::make_unsigned_t<T>;
  size_t width = sizeof(T);
  T least = 0;
  if (count > 0) {
    T most = 0;
    FindRange(values, count, least, most);
    const Unsigned range = static_cast<Unsigned>(most) - static_cast<Unsigned>(least);
    width = range == 0 ? 0 : range <= UINT8_MAX ? 1 : range <= UINT16_MAX ? 2 : range <= UINT32_MAX ? 4 : sizeof(T);
  }
  if (sizeof least + count * width >= count * sizeof(T)) width = sizeof(T);
  *out++ = static_cast<std::byte>(width);
  if (width == sizeof(T)) {
    if (count > 0) std::memcpy(out, values, count * sizeof(T));
    return 1 + count * sizeof(T);
  }
  std::memcpy(out, &least, sizeof least);
  out += sizeof least;
  if (width == 1) PackAs<uint8_t>(values, count, least, out);
  if (width == 2) PackAs<uint16_t>(values, count, least, out);
  if (width == 4) PackAs<uint32_t>(values, count, least, out);
  return 1 + sizeof least + count * width;
}

// Narrow integers as wider ones: to 64 bits by way of 32.
template <class D, class V>
HWY_INLINE hn::Vec<D> Widen(D d, V narrow) {
  if constexpr (sizeof(hn::TFromD<D>) == 8 && sizeof(hn::TFromV<V>) < 4) {
    const hn::Rebind<uint32_t, D> between;
    return hn::PromoteTo(d, hn::PromoteTo(between, narrow));
  } else {
    return hn::PromoteTo(d, narrow);
  }
}

template <typename Narrow, typename T>
HWY_INLINE void UnpackFrom(const std::byte* HWY_RESTRICT in, size_t count, T least, T* HWY_RESTRICT values) {
  using Unsigned = std::make_unsigned_t<T>;
  auto* const out = reinterpret_cast<Unsigned*>(values);
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR  // which reads no numbers that are not aligned
  const hn::ScalableTag<Unsigned> d;
  const hn::Rebind<Narrow, decltype(d)> narrow;
  const size_t lanes = hn::Lanes(d);
  const auto base = hn::Set(d, static_cast<Unsigned>(least));
  for (; i + lanes <= count; i += lanes) {
    const auto differences = hn::LoadU(narrow, reinterpret_cast<const Narrow*>(in) + i);
    hn::StoreU(hn::Add(Widen(d, differences), base), d, out + i);
  }
#endif
  for (; i < count; ++i) {
    Narrow difference = 0;
    std::memcpy(&difference, in + i * sizeof difference, sizeof difference);
    out[i] = static_cast<Unsigned>(least) + difference;
  }
}

template <typename T>
size_t Unpack(const std::byte* in, T* values, size_t count) {
  const auto width = static_cast<size_t>(*in++);
  if (width == sizeof(T)) {
    if (count > 0) std::memcpy(values, in, count * sizeof(T));
    return 1 + count * sizeof(T);
  }
  T least = 0;
  std::memcpy(&least, in, sizeof least);
  in += sizeof least;
  if (width == 0) std::fill_n(values, count, least);
  if (width == 1) UnpackFrom<uint8_t>(in, count, least, values);
  if (width == 2) UnpackFrom<uint16_t>(in, count, least, values);
  if constexpr (sizeof(T) > 4) {
    if (width == 4) UnpackFrom<uint32_t>(in, count, least, values);
  }
  return 1 + sizeof least + count * width;
}

size_t Pack32(const int32_t* values, size_t count, std::byte* out) { return Pack(values, count, out); }
size_t Pack64(const int64_t* values, size_t count, std::byte* out) { return Pack(values, count, out); }
size_t Unpack32(const std::byte* in, int32_t* values, size_t count) { return Unpack(in, values, count); }
size_t Unpack64(const std::byte* in, int64_t* values, size_t count) { return Unpack(in, values, count); }

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace {

HWY_EXPORT(Pack32);
HWY_EXPORT(Pack64);
HWY_EXPORT(Unpack32);
HWY_EXPORT(Unpack64);

size_t pack_integers(std::span<const int32_t> values, std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(Pack32)(values.data(), values.size(), out);
}

size_t pack_integers(std::span<const int64_t> values, std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(Pack64)(values.data(), values.size(), out);
}

size_t unpack_integers(const std::byte* in, std::span<int32_t> values) {
  return HWY_DYNAMIC_DISPATCH(Unpack32)(in, values.data(), values.size());
}

size_t unpack_integers(const std::byte* in, std::span<int64_t> values) {
  return HWY_DYNAMIC_DISPATCH(Unpack64)(in, values.data(), values.size());
}

}  // namespace millrace
#endif
