#pragma once

#include <string>
#include <vector>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

struct NormalizeOptions {
  std::string feature = "image";                ///< uint8, int32 or float32 images. Default: image
  std::vector<double> mean = {};                ///< of each channel, or one for all. No default
  std::vector<double> standard_deviation = {};  ///< of each channel, or one for all; above 0. No default
  bool channels_first = false;  ///< the result is [channels,height,width], as PyTorch's models take it. Default: false

  static constexpr auto fields() {
    using A = NormalizeOptions;
    return describe<A>("NormalizeOptions", field::stream<&A::feature>, field::required<&A::mean>,
                       field::required<&A::standard_deviation>, field::stream<&A::channels_first>);
  }
};

/// Makes images float32 (x - mean) / standard_deviation, computed in float32, as torchvision's Normalize.
///
///     {.mean = {127.5}, .standard_deviation = {127.5}}
///     image uint8 [[[0],[255]]]  ->  image float32 [[[-1],[1]]]
///
/// Values are taken as they are: those of uint8 images from 0 to 255. Images are [height,width,channels] and may differ
/// in size; in batches [rows,height,width,channels], with the same result. One whose number of channels is not that of
/// mean or standard deviation makes its element the error `wrong_shape`.
class NormalizeOperator final : public MapOperator {
 public:
  /// Throws `kInvalidArgument` for a feature that is no images or of other channels by its shape, and for numbers that
  /// are missing, not finite in float32, or a standard deviation that is not above 0.
  NormalizeOperator(const SchemaPtr& input, NormalizeOptions options);
  std::string_view name() const override { return "normalize"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .uses_row_numbers = false}; }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  template <typename T>
  void normalize(const Column& from, size_t element, Column& to) const;

  NormalizeOptions options_;
  size_t column_;
  size_t channels_;  // for which there are numbers; 1: for any
  // Of some pixels, one channel after the other.
  std::vector<float> means_;
  std::vector<float> deviations_;
};

/// What `Dataset::normalize` is called with.
struct NormalizeArguments {
  NormalizeOptions options = {};

  static constexpr auto fields() {
    return describe<NormalizeArguments>("normalize", field::inlined<&NormalizeArguments::options>);
  }
};

}  // namespace millrace
