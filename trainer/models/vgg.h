#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// A VGG (Simonyan and Zisserman 2015, without batch norm) as a frozen network, for features of pictures and perceptual
/// losses: 3x3 convolutions with a bias and "SAME" padding, a relu after each, 2x2 max pooling between the blocks. Its
/// weights are constants and no parameters. Immutable: any number of threads and tapes use one at once.
///
///     const Vgg vgg = Vgg::read("vgg19.safetensors");
///     const Tensor<float> of_output = vgg.maps(tape, output);  // [images, height / 16, width / 16, 512]
class Vgg {
 public:
  /// Of a safetensors file with torchvision's names: `features.0.weight` `[out, in, 3, 3]`, `features.0.bias` `[out]`
  /// and so on. The file alone says the structure: the next convolution's number is 2 higher, or 3 with a pooling in
  /// between. Half precision and bfloat16 are widened; `classifier.*` is not read. Throws `kIo`; `kParse` for what is
  /// no safetensors file; `kInvalidArgument` naming file and tensor for the names of batch norm and others, a gap in
  /// the numbers, a shape that does not fit, and a value that is not finite.
  [[nodiscard]] static Vgg read(const std::string& path);
  /// Of these widths, a block each with a pooling in between: `{{64, 64}, {128, 128}}`. Kernels are normal with
  /// variance 2 / (9 in) (He et al. 2015), a pure function of the seed; biases are 0. Throws `kInvalidArgument` without
  /// a block, for an empty one and for a width below 1.
  [[nodiscard]] static Vgg drawn(const std::vector<std::vector<int64_t>>& blocks, uint64_t seed);
  /// Writes what `read` reads, float32, whole or not at all. Throws `kIo` naming the file.
  void write(const std::string& path) const;

  /// Of the last convolution.
  [[nodiscard]] int64_t channels() const { return convolutions_.back().out; }
  [[nodiscard]] int64_t convolutions() const { return std::ssize(convolutions_); }
  /// The pixels of a side that make one position of the last convolution's maps, 2^poolings: smaller images are
  /// refused.
  [[nodiscard]] int64_t least_side() const { return least_side(convolutions() - 1); }
  /// Structure and a digest of the values, for descriptions: `vgg(64 64 M 128 128, xxh3 0123456789abcdef)`, M a
  /// pooling.
  [[nodiscard]] std::string describe() const;

  /// The maps of one convolution, before its relu, of images `[images, height, width, 3]`: red, green and blue from 0
  /// to 1, of which torchvision's mean and deviation of ImageNet are taken off inside. Gives `[images, height / 2^p,
  /// width / 2^p, channels]`, rounded down, with p poolings before it. Differentiable with respect to the images. T is
  /// float or double. `convolution`: its number, from 0. Default: the last one. Throws `kInvalidArgument` for another
  /// number, `kWrongShape` for other images, also where a side has fewer than 2^p pixels.
  template <typename T>
  [[nodiscard]] Tensor<T> maps(Tape<T>& tape, const Tensor<T>& images, std::optional<int64_t> convolution = {}) const;

 private:
  struct Convolution {
    int64_t in = 0;
    int64_t out = 0;
    bool pools = false;              // before it
    std::vector<float> kernel = {};  // [3, 3, in, out]
    std::vector<float> bias = {};    // [out]
  };

  Vgg() = default;
  int64_t least_side(int64_t convolution) const;
  // The numbers of the convolutions in torchvision's list of layers.
  std::vector<int64_t> layers() const;

  std::vector<Convolution> convolutions_;
};

}  // namespace millrace
