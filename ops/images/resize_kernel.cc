// Compiled once for each instruction set that Highway knows here; see HWY_EXPORT at the end. Without -ffp-contract=off
// (CMakeLists.txt) the values would differ where the instructions have fused multiply-add.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "millrace/ops/images/resize_kernel.cc"
#include "millrace/ops/images/resize_kernel.h"

#include <cstring>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;

HWY_INLINE hn::Vec<Floats> LoadFloats(const float* HWY_RESTRICT from) { return hn::LoadU(Floats(), from); }

HWY_INLINE hn::Vec<Floats> LoadFloats(const int32_t* HWY_RESTRICT from) {
  return hn::ConvertTo(Floats(), hn::LoadU(hn::RebindToSigned<Floats>(), from));
}

HWY_INLINE hn::Vec<Floats> LoadFloats(const uint8_t* HWY_RESTRICT from) {
  const hn::Rebind<uint8_t, Floats> bytes;
  return hn::ConvertTo(Floats(), hn::PromoteTo(hn::RebindToSigned<Floats>(), hn::LoadU(bytes, from)));
}

// sum[i] = the sum of weights[t] * rows[t][i], rows of `length` values.
template <typename T>
HWY_INLINE void SumRows(const T* HWY_RESTRICT image, size_t length, const uint32_t* HWY_RESTRICT rows,
                        const float* HWY_RESTRICT weights, size_t count, float* HWY_RESTRICT sum) {
  // Rows of no weight are not touched.
  while (count > 1 && weights[count - 1] == 0) --count;
  for (; count > 1 && weights[0] == 0; ++rows, ++weights) --count;
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const T* HWY_RESTRICT first = image + rows[0] * length;
  size_t i = 0;
  if (count == 1 && weights[0] == 1) {
    for (; i + lanes <= length; i += lanes) hn::StoreU(LoadFloats(first + i), d, sum + i);
  } else if (count == 2) {
    const T* HWY_RESTRICT second = image + rows[1] * length;
    const auto of_first = hn::Set(d, weights[0]);
    const auto of_second = hn::Set(d, weights[1]);
    for (; i + lanes <= length; i += lanes) {
      hn::StoreU(hn::Add(hn::Mul(of_first, LoadFloats(first + i)), hn::Mul(of_second, LoadFloats(second + i))), d,
                 sum + i);
    }
  } else {
    for (; i + lanes <= length; i += lanes) {
      auto all = hn::Mul(hn::Set(d, weights[0]), LoadFloats(first + i));
      for (size_t t = 1; t < count; ++t) {
        all = hn::Add(all, hn::Mul(hn::Set(d, weights[t]), LoadFloats(image + rows[t] * length + i)));
      }
      hn::StoreU(all, d, sum + i);
    }
  }
  for (; i < length; ++i) {
    float all = weights[0] * static_cast<float>(first[i]);
    for (size_t t = 1; t < count; ++t) all += weights[t] * static_cast<float>(image[rows[t] * length + i]);
    sum[i] = all;
  }
}

// A channel of a pixel by itself.
HWY_INLINE float SumOne(const float* HWY_RESTRICT row, size_t channels, const uint32_t* HWY_RESTRICT pixels,
                        const float* HWY_RESTRICT weights, size_t count) {
  float all = weights[0] * row[pixels[0] * channels];
  for (size_t t = 1; t < count; ++t) all += weights[t] * row[pixels[t] * channels];
  return all;
}

// The pixels of a new row. kTaps: of how many pixels each is the sum, 0 where it differs; kChannels: 0 for any number.
template <size_t kTaps, size_t kChannels>
HWY_INLINE void SumPixels(const float* HWY_RESTRICT row, const ResizeAxis& axis, size_t any_channels,
                          float* HWY_RESTRICT to) {
  const size_t channels = kChannels > 0 ? kChannels : any_channels;
  const size_t size = axis.size();
  for (size_t i = 0; i < size; ++i, to += channels) {
    const size_t first = kTaps > 0 ? i * kTaps : axis.first(i);
    const size_t count = kTaps > 0 ? kTaps : axis.first(i + 1) - first;
    const uint32_t* HWY_RESTRICT pixels = axis.pixels() + first;
    const float* HWY_RESTRICT weights = axis.weights() + first;
    size_t c = 0;
#if HWY_TARGET != HWY_SCALAR
    // Three channels are four of which the last is the first of the next pixel, which is written after it.
    constexpr size_t kLast = kChannels == 3 ? 3 : 4;
    if (kChannels != 1 && (kChannels != 3 || i + 1 < size)) {
      const hn::FixedTag<float, 4> d;
      for (; c + kLast <= channels; c += kLast) {
        auto all = hn::Mul(hn::Set(d, weights[0]), hn::LoadU(d, row + pixels[0] * channels + c));
        for (size_t t = 1; t < count; ++t) {
          all = hn::Add(all, hn::Mul(hn::Set(d, weights[t]), hn::LoadU(d, row + pixels[t] * channels + c)));
        }
        hn::StoreU(all, d, to + c);
      }
    }
#endif
    for (; c < channels; ++c) to[c] = SumOne(row + c, channels, pixels, weights, count);
  }
}

template <size_t kTaps>
HWY_INLINE void SumPixelsOf(const float* HWY_RESTRICT row, const ResizeAxis& axis, size_t channels,
                            float* HWY_RESTRICT to) {
  if (channels == 3) return SumPixels<kTaps, 3>(row, axis, channels, to);
  if (channels == 1) return SumPixels<kTaps, 1>(row, axis, channels, to);
  SumPixels<kTaps, 0>(row, axis, channels, to);
}

template <typename T>
HWY_INLINE void Resize(const T* image, const ResizeAxis& rows, const ResizeAxis& columns, size_t channels, float* row,
                       float* to) {
  const size_t length = static_cast<size_t>(columns.from()) * channels;
  for (size_t y = 0; y < rows.size(); ++y, to += columns.size() * channels) {
    const size_t first = rows.first(y);
    SumRows(image, length, rows.pixels() + first, rows.weights() + first, rows.first(y + 1) - first, row);
    if (columns.taps() == 2) {
      SumPixelsOf<2>(row, columns, channels, to);
    } else if (columns.taps() == 4) {
      SumPixelsOf<4>(row, columns, channels, to);
    } else {
      SumPixelsOf<0>(row, columns, channels, to);
    }
  }
}

void ResizeUint8(const uint8_t* image, const ResizeAxis& rows, const ResizeAxis& columns, size_t channels, float* row,
                 float* to) {
  Resize(image, rows, columns, channels, row, to);
}
void ResizeInt32(const int32_t* image, const ResizeAxis& rows, const ResizeAxis& columns, size_t channels, float* row,
                 float* to) {
  Resize(image, rows, columns, channels, row, to);
}
void ResizeFloat(const float* image, const ResizeAxis& rows, const ResizeAxis& columns, size_t channels, float* row,
                 float* to) {
  Resize(image, rows, columns, channels, row, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace {
namespace {

// kBytes: of a pixel, 0 for any number.
template <size_t kBytes>
void copy_pixels(const std::byte* row, const ResizeAxis& columns, size_t any_bytes, std::byte* to) {
  const size_t bytes = kBytes > 0 ? kBytes : any_bytes;
  for (size_t x = 0; x < columns.size(); ++x) std::memcpy(to + x * bytes, row + columns.pixel(x) * bytes, bytes);
}

}  // namespace

HWY_EXPORT(ResizeUint8);
HWY_EXPORT(ResizeInt32);
HWY_EXPORT(ResizeFloat);

ResizeKernel::ResizeKernel(BufferPool& pool, ResizeMethod method, bool antialias, int64_t from_height,
                           int64_t from_width, int64_t to_height, int64_t to_width)
    : rows_(pool, method, antialias, from_height, to_height),
      columns_(pool, method, antialias, from_width, to_width),
      row_(CountedAllocator<float>(pool)) {}

bool ResizeKernel::fits(int64_t from_height, int64_t from_width, int64_t to_height, int64_t to_width) const {
  return rows_.from() == from_height && columns_.from() == from_width &&
         rows_.size() == static_cast<size_t>(to_height) && columns_.size() == static_cast<size_t>(to_width);
}

float* ResizeKernel::row_of(size_t channels) {
  // One more, which is read beside the last pixel of three channels.
  row_.resize(static_cast<size_t>(columns_.from()) * channels + 1);
  return row_.data();
}

void ResizeKernel::resize(const uint8_t* from, size_t channels, float* to) {
  HWY_DYNAMIC_DISPATCH(ResizeUint8)(from, rows_, columns_, channels, row_of(channels), to);
}

void ResizeKernel::resize(const int32_t* from, size_t channels, float* to) {
  HWY_DYNAMIC_DISPATCH(ResizeInt32)(from, rows_, columns_, channels, row_of(channels), to);
}

void ResizeKernel::resize(const float* from, size_t channels, float* to) {
  HWY_DYNAMIC_DISPATCH(ResizeFloat)(from, rows_, columns_, channels, row_of(channels), to);
}

void ResizeKernel::copy_nearest(const std::byte* from, size_t pixel_bytes, std::byte* to) const {
  const size_t from_length = static_cast<size_t>(columns_.from()) * pixel_bytes;
  const size_t to_length = columns_.size() * pixel_bytes;
  for (size_t y = 0; y < rows_.size(); ++y, to += to_length) {
    const std::byte* row = from + rows_.pixel(y) * from_length;
    if (pixel_bytes == 1) {
      copy_pixels<1>(row, columns_, pixel_bytes, to);
    } else if (pixel_bytes == 3) {
      copy_pixels<3>(row, columns_, pixel_bytes, to);
    } else if (pixel_bytes == 4) {
      copy_pixels<4>(row, columns_, pixel_bytes, to);
    } else if (pixel_bytes == 12) {
      copy_pixels<12>(row, columns_, pixel_bytes, to);
    } else {
      copy_pixels<0>(row, columns_, pixel_bytes, to);
    }
  }
}

}  // namespace millrace
#endif
