#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/trainer/parameters.h"
#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// How many times longer the sides of a generated image are.
inline constexpr int64_t kUpscaling = 4;

/// The sizes of an `ImageGenerator`.
struct GeneratorConfig {
  int64_t blocks = 11;          ///< residual-in-residual dense blocks (RRDB), 1 to 64. Default: 11
  int64_t channels = 32;        ///< of the images between them, 1 to 1,024. Default: 32
  int64_t growth = 32;          ///< channels that a convolution of a dense block adds, 1 to 1,024. Default: 32
  double residual_scale = 0.2;  ///< of what a block adds to its input, 0 to 1. Default: 0.2
  /// Where others have 3x3 convolutions, between the first and the last, each channel is convolved by itself and each
  /// pixel then mixed (depthwise separable, as MobileNet's): a student. Default: false
  bool depthwise = false;
  /// The image made larger by bicubic interpolation is added to what the convolutions make, so that these learn what it
  /// lacks (a global residual, as VDSR's, https://arxiv.org/abs/1511.04587). Default: false, as ESRGAN
  bool adds_bicubic = false;

  /// Throws `kInvalidArgument` naming what is out of range.
  void check() const;
  std::string describe() const;
  bool operator==(const GeneratorConfig&) const = default;
};

/// The generator of ESRGAN (Wang and others 2018, https://arxiv.org/abs/1809.00219): a 3x3 convolution, RRDBs, another
/// one and the sum with what the first gave, two transposed convolutions with a stride of 2, and two convolutions.
/// Leaky ReLUs have a slope of 0.2. A part of a model; its parameters lie in the model's layout, kernels as `[height,
/// width, in, out]`, those of transposed convolutions as `[height, width, out, in]`. Immutable, any thread.
class ImageGenerator {
 public:
  /// Registers the parameters in `layout`, under names that begin with `prefix`, to follow `loss`. Throws
  /// `kInvalidArgument` as `check` of the config.
  ImageGenerator(ParameterLayout& layout, const GeneratorConfig& config, const std::string& prefix = "", int loss = 0);

  const GeneratorConfig& config() const { return config_; }
  /// The ids of its parameters, in order.
  std::span<const int> parameters() const { return parameters_; }
  /// Writes start values into `weights` of the layout: normal as He and others have them, in dense blocks a tenth of
  /// that, as ESRGAN's authors; biases are 0, and so is the last convolution where the bicubic image is added.
  void initialize(const ParameterLayout& layout, std::span<float> weights, uint64_t seed) const;
  /// Images `[images, height, width, 3]` with values from 0 to 1 to `[images, 4 height, 4 width, 3]`, which are not
  /// clipped to that range. A tape that does not record holds a few of the values in between at a time.
  template <typename T>
  Tensor<T> upscale(Tape<T>& tape, const Tensor<T>& images) const;
  /// So many pixels of the input around a pixel decide, at most, what is made of it.
  int64_t radius() const;
  /// Multiplications for each pixel of the input.
  int64_t multiplications() const { return multiplications_; }

 private:
  struct Convolution {
    int depthwise = -1;  // a kernel for each channel, before the other
    int kernel = 0;
    int bias = 0;
  };
  struct DenseBlock {
    std::vector<Convolution> convolutions;
  };

  int add_parameter(ParameterLayout& layout, const std::string& name, std::vector<int64_t> shape);
  Convolution add_convolution(ParameterLayout& layout, const std::string& name, int64_t in, int64_t out, bool depthwise,
                              int64_t pixels = 1);
  Convolution add_transposed(ParameterLayout& layout, const std::string& name, int64_t pixels);
  template <typename T>
  Tensor<T> convolve(Tape<T>& tape, const Tensor<T>& x, const Convolution& convolution) const;
  template <typename T>
  Tensor<T> dense_block(Tape<T>& tape, const Tensor<T>& x, const DenseBlock& block) const;
  template <typename T>
  Tensor<T> plus_scaled(Tape<T>& tape, const Tensor<T>& x, const Tensor<T>& change) const;

  GeneratorConfig config_;
  std::string prefix_;
  int loss_ = 0;
  std::vector<int> parameters_;
  int64_t multiplications_ = 0;
  Convolution first_;
  std::vector<DenseBlock> dense_blocks_;  // kDenseBlocks for each RRDB
  Convolution body_;
  std::vector<Convolution> up_;
  Convolution before_last_;
  Convolution last_;
};

/// A generator with the weights of a model's folder: `config.json` and `model.safetensors`. Any thread.
class TrainedGenerator {
 public:
  /// Throws `kIo` and `kParse` naming the file, `kInvalidArgument` for another model's.
  explicit TrainedGenerator(const std::string& directory);

  const ImageGenerator& generator() const { return generator_; }
  const ParameterLayout& layout() const { return layout_; }
  std::span<const float> weights() const { return weights_.span(); }
  /// The pixels of images `[images, height, width, 3]`, values from 0 to 1, to those of `[images, 4 height, 4 width,
  /// 3]`, not clipped. On the calling thread, with memory of its own.
  std::vector<float> upscale(std::span<const float> pixels, int64_t height, int64_t width) const;
  /// A digest of config and weights.
  std::string describe() const;

 private:
  ParameterLayout layout_;
  ImageGenerator generator_;
  FlatBuffer weights_;
};

/// Copies a generator's parameters from one layout's buffer to another's; both of one config.
void copy_generator(const ParameterLayout& from_layout, const ImageGenerator& from, std::span<const float> from_weights,
                    const ParameterLayout& to_layout, const ImageGenerator& to, std::span<float> to_weights);
/// Writes `model.safetensors` for a TrainedGenerator. Throws `kIo`.
void save_generator_weights(const std::string& directory, const ParameterLayout& layout,
                            const ImageGenerator& generator, std::span<const float> weights);
/// The config in `config.json` of a model's folder. Throws as TrainedGenerator.
GeneratorConfig load_generator_config(const std::string& directory);
/// Writes it. Throws `kIo`.
void save_generator_config(const std::string& directory, const GeneratorConfig& config);

}  // namespace millrace
