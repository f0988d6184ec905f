#pragma once

#include <cstdint>

#include "millrace/trainer/tensor/arena.h"
#include "millrace/trainer/tensor/same_padding.h"
#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// The sizes of a convolution: of images `[images, height, width, in]` by a kernel `[kernel_height, kernel_width, in,
/// out]`; or, `depthwise`, of each channel by itself by `[kernel_height, kernel_width, in]`, with as many channels out.
/// It gives `[images, output_height, output_width, out]`.
struct Convolution {
  SamePatches patches = {};
  int64_t images = 0;
  int64_t out = 0;
  bool depthwise = false;

  int64_t input_count() const { return images * patches.image_size(); }
  int64_t kernel_count() const { return patches.size() * (depthwise ? 1 : out); }
  int64_t output_count() const { return images * patches.count() * out; }
};

/// `y`, the convolution of `x` by `kernel`. `arena` lends memory for the length of the call. Runs on the calling thread
/// alone; the result depends on the arguments and the processor's instruction set only. T is float or double.
///
/// These three are the one place where Millrace convolves. Floats go through oneDNN where it was found at build time
/// and has an implementation for the sizes that is not its plain reference, all else through products of patches
/// (convolution_patches.h).
template <typename T>
void convolve(const Convolution& sizes, const T* x, const T* kernel, T* y, Arena& arena);

/// The gradient of `x`, from `dy` of the output: `add`ed to `dx`, or written there.
template <typename T>
void convolution_input_gradient(const Convolution& sizes, const T* dy, const T* kernel, bool add, T* dx, Arena& arena);

/// The gradient of `kernel`, from `dy` of the output: `add`ed to `dkernel`, or written there.
template <typename T>
void convolution_kernel_gradient(const Convolution& sizes, const T* x, const T* dy, bool add, T* dkernel, Arena& arena);

/// The convolution of a tensor by a kernel as an operator of the tape.
template <typename T>
Tensor<T> convolution_on_tape(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& kernel, const Convolution& sizes) {
  const SamePatches& patches = sizes.patches;
  const Tensor<T> y = tape.make({sizes.images, patches.output_height(), patches.output_width(), sizes.out});
  convolve<T>(sizes, x.values, kernel.values, y.values, tape.arena());
  tape.record({x, kernel}, y, [=](Tape<T>& t, const T* dy) {
    if (t.wants(kernel)) {
      const GradientSlot<T> slot = t.gradient_of(kernel);
      convolution_kernel_gradient<T>(sizes, x.values, dy, slot.add, slot.values, t.arena());
    }
    if (t.wants(x)) {
      const GradientSlot<T> slot = t.gradient_of(x);
      convolution_input_gradient<T>(sizes, dy, kernel.values, slot.add, slot.values, t.arena());
    }
  });
  return y;
}

}  // namespace millrace
