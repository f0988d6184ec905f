// Compiled once for each instruction set that Highway knows here; see HWY_EXPORT at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "millrace/trainer/tensor/kernels/elementwise.cc"
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "millrace/trainer/tensor/kernels/tables.h"

// The first of these includes this file again for each instruction set; the others follow it.
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "millrace/trainer/tensor/kernels/vector_loops-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

template <typename T>
HWY_ATTR void Scale(const T* x, T factor, int64_t n, bool add, T* y) {
  const auto by = hn::Set(Tag<T>(), factor);
  transform(
      n, add, y, [&](auto v) HWY_ATTR { return hn::Mul(v, by); }, x);
}

template <typename T>
HWY_ATTR void Multiply(const T* x, const T* y, int64_t n, bool add, T* z) {
  transform(
      n, add, z, [](auto a, auto b) HWY_ATTR { return hn::Mul(a, b); }, x, y);
}

template <typename T>
void FillRows(const T* row, int64_t rows, int64_t columns, T* y) {
  for (int64_t i = 0; i < rows; ++i) std::copy_n(row, columns, y + i * columns);
}

template <typename T>
HWY_ATTR void AddRow(const T* row, int64_t rows, int64_t columns, T* y) {
  for (int64_t i = 0; i < rows; ++i) AddTo(row, columns, y + i * columns);
}

template <typename T>
HWY_ATTR void ColumnSums(const T* x, int64_t rows, int64_t columns, bool add, T* sums) {
  if (!add) std::fill_n(sums, columns, T{0});
  int64_t i = 0;
  // Four rows at once: the sums are read and written once for them.
  for (; i + 4 <= rows; i += 4) {
    const T* first = x + i * columns;
    transform(
        columns, true, sums,
        [](auto a, auto b, auto c, auto d) HWY_ATTR { return hn::Add(hn::Add(a, b), hn::Add(c, d)); }, first,
        first + columns, first + 2 * columns, first + 3 * columns);
  }
  for (; i < rows; ++i) AddTo(x + i * columns, columns, sums);
}

// Vectors of floats have 4, 8 or 16 lanes here, so that those of 8 values fill whole bytes.
template <typename T>
HWY_ATTR void AtLeast(const uint32_t* words, uint32_t threshold, int64_t n, uint8_t* bits) {
  const hn::ScalableTag<uint32_t> d;
  const auto width = static_cast<int64_t>(hn::Lanes(d));
  const auto limit = hn::Set(d, threshold);
  int64_t i = 0;
  if (width % 8 == 0) {
    for (; i + width <= n; i += width) {
      uint8_t some[8];
      hn::StoreMaskBits(d, hn::Not(hn::Lt(hn::LoadU(d, words + i), limit)), some);
      std::memcpy(bits + i / 8, some, static_cast<size_t>(width / 8));
    }
  }
  for (; i < n; i += 8) {
    unsigned byte = 0;
    for (int64_t bit = 0; bit < std::min<int64_t>(8, n - i); ++bit) {
      byte |= (words[i + bit] >= threshold ? 1U : 0U) << static_cast<unsigned>(bit);
    }
    bits[i / 8] = static_cast<uint8_t>(byte);
  }
}

template <typename T>
HWY_ATTR void Dropout(const T* x, const uint8_t* bits, T scale, const T* base, int64_t n, T* y) {
  int64_t i = 0;
  if constexpr (std::is_same_v<T, float>) {
    const Tag<T> d;
    const auto factor = hn::Set(d, scale);
    if (lanes<T>() % 8 == 0) {
      for (; i + lanes<T>() <= n; i += lanes<T>()) {
        uint8_t some[8] = {};
        std::memcpy(some, bits + i / 8, static_cast<size_t>(lanes<T>() / 8));
        auto value = hn::IfThenElseZero(hn::LoadMaskBits(d, some), hn::Mul(hn::LoadU(d, x + i), factor));
        if (base != nullptr) value = hn::Add(hn::LoadU(d, base + i), value);
        hn::StoreU(value, d, y + i);
      }
    }
  }
  for (; i < n; ++i) {
    const T value = (bits[i / 8] >> (i % 8) & 1) != 0 ? scale * x[i] : 0;
    y[i] = base != nullptr ? base[i] + value : value;
  }
}

inline uint16_t rounded(float value) {
  if (value != value) return 0x7fc0;
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <typename T>
HWY_ATTR void ToBfloat16(const T* x, int64_t n, uint16_t* y) {
  int64_t i = 0;
  if constexpr (std::is_same_v<T, float>) {
    const Tag<T> d;
    const hn::RebindToUnsigned<Tag<T>> du;
    const hn::RebindToSigned<Tag<T>> di;
    const hn::Rebind<uint16_t, Tag<T>> d16;
    const auto one = hn::Set(du, 1);
    const auto half = hn::Set(du, 0x7fff);
    const auto nan = hn::Set(du, 0x7fc0);
    for (; i + lanes<T>() <= n; i += lanes<T>()) {
      const auto value = hn::LoadU(d, x + i);
      const auto bits = hn::BitCast(du, value);
      const auto odd = hn::And(hn::ShiftRight<16>(bits), one);
      const auto high = hn::ShiftRight<16>(hn::Add(bits, hn::Add(half, odd)));
      const auto is_nan = hn::RebindMask(du, hn::IsNaN(value));
      hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, hn::IfThenElse(is_nan, nan, high))), d16, y + i);
    }
  }
  for (; i < n; ++i) y[i] = rounded(static_cast<float>(x[i]));
}

template <typename T>
HWY_ATTR void FromBfloat16(const uint16_t* x, int64_t n, T* y) {
  int64_t i = 0;
  if constexpr (std::is_same_v<T, float>) {
    const Tag<T> d;
    const hn::RebindToUnsigned<Tag<T>> du;
    const hn::Rebind<uint16_t, Tag<T>> d16;
    for (; i + lanes<T>() <= n; i += lanes<T>()) {
      hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, x + i)))), d, y + i);
    }
  }
  for (; i < n; ++i) {
    const uint32_t bits = static_cast<uint32_t>(x[i]) << 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    y[i] = value;
  }
}

template <typename T>
constexpr ElementwiseKernels<T> kElementwiseTable = {.add = &AddTo<T>,
                                                     .scale = &Scale<T>,
                                                     .multiply = &Multiply<T>,
                                                     .fill_rows = &FillRows<T>,
                                                     .add_row = &AddRow<T>,
                                                     .column_sums = &ColumnSums<T>,
                                                     .at_least = &AtLeast<T>,
                                                     .dropout = &Dropout<T>,
                                                     .to_bfloat16 = &ToBfloat16<T>,
                                                     .from_bfloat16 = &FromBfloat16<T>};

const ElementwiseKernels<float>* FloatElementwise() { return &kElementwiseTable<float>; }
const ElementwiseKernels<double>* DoubleElementwise() { return &kElementwiseTable<double>; }

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace {

HWY_EXPORT(FloatElementwise);
HWY_EXPORT(DoubleElementwise);

template <>
const ElementwiseKernels<float>& elementwise_kernels<float>() {
  return *HWY_DYNAMIC_DISPATCH(FloatElementwise)();
}

template <>
const ElementwiseKernels<double>& elementwise_kernels<double>() {
  return *HWY_DYNAMIC_DISPATCH(DoubleElementwise)();
}

}  // namespace millrace
#endif
