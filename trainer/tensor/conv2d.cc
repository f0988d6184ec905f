#include "millrace/trainer/tensor/conv2d.h"

#include <algorithm>

#include "millrace/trainer/tensor/gemm.h"
#include "millrace/trainer/tensor/same_padding.h"

namespace millrace {

template <typename T>
Tensor<T> conv2d(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& kernel, int64_t stride) {
  const SamePatches geometry = same_patches("conv2d", x.shape, kernel.shape, 4, stride);
  const int64_t images = x.shape.sizes()[0];
  const int64_t out = kernel.shape.columns();
  const int64_t rows = geometry.count();
  const int64_t size = geometry.size();
  const Tensor<T> y = tape.make({images, geometry.output_height(), geometry.output_width(), out});
  T* patches = tape.arena().template allocate<T>(rows * size);
  for (int64_t i = 0; i < images; ++i) {
    read_patches(geometry, x.values + i * geometry.image_size(), patches);
    gemm<T>(Transposed::kNo, Transposed::kNo, rows, out, size, 1, patches, size, kernel.values, out, 0,
            y.values + i * rows * out, out);
  }
  tape.arena().release(patches, rows * size);
  tape.record({x, kernel}, y, [=](Tape<T>& t, const T* dy) {
    T* read = t.arena().template allocate<T>(rows * size);
    if (t.wants(kernel)) {
      const GradientSlot<T> slot = t.gradient_of(kernel);
      if (images == 0 && !slot.add) std::fill_n(slot.values, kernel.count(), T{0});
      for (int64_t i = 0; i < images; ++i) {
        read_patches(geometry, x.values + i * geometry.image_size(), read);
        gemm<T>(Transposed::kYes, Transposed::kNo, size, out, rows, 1, read, size, dy + i * rows * out, out,
                i == 0 ? slot.beta() : 1, slot.values, out);
      }
    }
    if (t.wants(x)) {
      const GradientSlot<T> slot = t.gradient_of(x);
      if (!slot.add) std::fill_n(slot.values, x.count(), T{0});
      for (int64_t i = 0; i < images; ++i) {
        gemm<T>(Transposed::kNo, Transposed::kYes, rows, size, out, 1, dy + i * rows * out, out, kernel.values, out, 0,
                read, size);
        add_patches(geometry, static_cast<const T*>(read), slot.values + i * geometry.image_size());
      }
    }
    t.arena().release(read, rows * size);
  });
  return y;
}

template Tensor<float> conv2d(Tape<float>&, const Tensor<float>&, const Tensor<float>&, int64_t);
template Tensor<double> conv2d(Tape<double>&, const Tensor<double>&, const Tensor<double>&, int64_t);

}  // namespace millrace
