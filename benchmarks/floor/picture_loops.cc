// Compiled once for each instruction set that Highway knows here, without fused multiply-add (CMakeLists.txt).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "benchmarks/floor/picture_loops.cc"
#include "benchmarks/floor/picture_loops.h"

#include <algorithm>
#include <cmath>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE hn::Vec<hn::ScalableTag<float>> FloatsOf(const uint8_t* HWY_RESTRICT bytes) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint8_t, hn::ScalableTag<float>> narrow;
  return hn::ConvertTo(d, hn::PromoteTo(hn::RebindToSigned<hn::ScalableTag<float>>(), hn::LoadU(narrow, bytes)));
}

void AddRows(const uint8_t* HWY_RESTRICT first, const uint8_t* HWY_RESTRICT second, float of_first, float of_second,
             size_t count, float* HWY_RESTRICT sums) {
  const hn::ScalableTag<float> d;
  const auto a = hn::Set(d, of_first);
  const auto b = hn::Set(d, of_second);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    hn::StoreU(hn::Add(hn::Mul(a, FloatsOf(first + i)), hn::Mul(b, FloatsOf(second + i))), d, sums + i);
  }
  for (; i < count; ++i) {
    sums[i] = of_first * static_cast<float>(first[i]) + of_second * static_cast<float>(second[i]);
  }
}

void MakeRow(const float* HWY_RESTRICT sums, const BilinearAxis& columns, const float* HWY_RESTRICT means,
             const float* HWY_RESTRICT deviations, float* HWY_RESTRICT resized, float* HWY_RESTRICT out) {
  const size_t size = columns.first.size();
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  // The fourth of the values is written over by the next pixel.
  const hn::FixedTag<float, 4> four;
  for (size_t x = 0; x < size; ++x) {
    const auto left = hn::Mul(hn::Set(four, columns.of_first[x]), hn::LoadU(four, sums + columns.first[x] * 3));
    const auto right = hn::Mul(hn::Set(four, columns.of_second[x]), hn::LoadU(four, sums + columns.second[x] * 3));
    hn::StoreU(hn::Add(left, right), four, resized + x * 3);
  }
  const hn::ScalableTag<float> d;
  for (; i + hn::Lanes(d) <= size * 3; i += hn::Lanes(d)) {
    const auto centred = hn::Sub(hn::LoadU(d, resized + i), hn::LoadU(d, means + i));
    hn::StoreU(hn::Div(centred, hn::LoadU(d, deviations + i)), d, out + i);
  }
#else
  for (size_t x = 0; x < size * 3; ++x) {
    resized[x] = columns.of_first[x / 3] * sums[columns.first[x / 3] * 3 + x % 3] +
                 columns.of_second[x / 3] * sums[columns.second[x / 3] * 3 + x % 3];
  }
#endif
  for (; i < size * 3; ++i) out[i] = (resized[i] - means[i]) / deviations[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace {

HWY_EXPORT(AddRows);
HWY_EXPORT(MakeRow);

void BilinearAxis::assign(int64_t from, int64_t to, bool reversed) {
  const auto size = static_cast<size_t>(to);
  for (std::vector<uint32_t>* pixels : {&first, &second}) pixels->resize(size);
  for (std::vector<float>* weights : {&of_first, &of_second}) weights->resize(size);
  const float scale = static_cast<float>(from) / static_cast<float>(to);
  for (size_t i = 0; i < size; ++i) {
    const float place = (static_cast<float>(i) + 0.5F) * scale - 0.5F;
    const float below = std::floor(place);
    const size_t at = reversed ? size - 1 - i : i;
    of_first[at] = 1 - (place - below);
    of_second[at] = place - below;
    first[at] = static_cast<uint32_t>(std::clamp<int64_t>(static_cast<int64_t>(below), 0, from - 1));
    second[at] = static_cast<uint32_t>(std::clamp<int64_t>(static_cast<int64_t>(std::ceil(place)), 0, from - 1));
  }
}

void add_rows(const uint8_t* first, const uint8_t* second, float of_first, float of_second, size_t count, float* sums) {
  HWY_DYNAMIC_DISPATCH(AddRows)(first, second, of_first, of_second, count, sums);
}

void make_row(const float* sums, const BilinearAxis& columns, const float* means, const float* deviations,
              float* resized, float* out) {
  HWY_DYNAMIC_DISPATCH(MakeRow)(sums, columns, means, deviations, resized, out);
}

}  // namespace millrace
#endif
