#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "millrace/ops/format_arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

class CounterRng;

struct AugmentImagesOptions {
  std::vector<std::string> features = {};  ///< images that are changed alike: uint8, int32 or float32. No default
  bool rotate = false;                     ///< by 0, 90, 180 or 270 degrees; images must be square. Default: false
  bool flip_left_right = false;            ///< every second one. Default: false
  bool flip_up_down = false;               ///< every second one. Default: false
  /// A number from -brightness to brightness is added to all values; of uint8 and int32 images in parts of 255. Floats
  /// after `resize` are from 0 to 255 mostly: 25.5 there, or augment before it. Default: 0
  double brightness = 0;
  /// The distance of values to the mean of their channel is multiplied by a number from the first to the second, which
  /// must not be negative. Default: 1 to 1
  std::pair<double, double> contrast = {1, 1};
  /// The saturation (of HSV) is multiplied by a number from the first to the second, which must not be negative, and
  /// cut to 1; images have 3 channels: red, green and blue. Default: 1 to 1
  std::pair<double, double> saturation = {1, 1};
  /// A number from -hue to hue, in turns of the circle of colours, is added to the hue; from 0 to 0.5. Default: 0
  double hue = 0;
  /// To which float32 values are cut when values change. Default: none, not at all
  std::optional<std::pair<double, double>> clip = {};
  uint64_t seed = 0;  ///< another seed, other changes. Default: 0

  static constexpr auto fields() {
    using A = AugmentImagesOptions;
    return describe<A>("AugmentImagesOptions", field::required<&A::features>, field::stream<&A::rotate>,
                       field::stream<&A::flip_left_right>, field::stream<&A::flip_up_down>,
                       field::stream<&A::brightness>, field::stream<&A::contrast>, field::stream<&A::saturation>,
                       field::stream<&A::hue>, field::stream<&A::clip>, field::stream<&A::seed>);
  }
};

/// Changes images at random, all features of a row by the same draws: a low and a high resolution image stay a pair.
/// Rotation comes first (counterclockwise), then flips, brightness, contrast, saturation and hue: tf.image's rot90,
/// flip_left_right, flip_up_down, adjust_brightness, adjust_contrast, adjust_saturation and adjust_hue.
///
///     {.features = {"low", "high"}, .rotate = true}, turned by 90 degrees
///     low=[[[1],[2]],[[3],[4]]]  ->  low=[[[2],[4]],[[1],[3]]]
///
/// Images are [height,width,channels], and in batches [rows,height,width,channels], with the same result: what is drawn
/// is a pure function of seed, epoch and the row's number. uint8 and int32 images hold 0 to 255: they are rounded and
/// cut to that, once, when values change. float32 images have any scale, on which all but brightness and clip is the
/// same. An image that is not square and is to be rotated makes its element an error, and so does one that has not 3
/// channels where saturation or hue change.
class AugmentImagesOperator final : public MapOperator {
 public:
  /// `occurrence`: how many of these stand before it. Throws `kInvalidArgument` for features that are no images or
  /// named twice, and for bounds that cannot be.
  AugmentImagesOperator(const SchemaPtr& input, AugmentImagesOptions options, uint64_t occurrence = 0);
  std::string_view name() const override { return "augment_images"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true}; }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  // What happens to all images of one row.
  struct Change {
    uint32_t quarter_turns = 0;
    bool flip_left_right = false;
    bool flip_up_down = false;
    float added = 0;
    float factor = 1;
    float saturation = 1;  // what it is multiplied by
    float hue = 0;         // turns
  };
  Change drawn(const CounterRng& rng, uint64_t row) const;
  // Makes an error of an element that cannot be changed.
  void check_element(Block& block, size_t element) const;
  // `from` may be `to`, unless it is turned.
  template <typename T>
  void change_image(const T* from, const Shape& shape, const Change& change, T* to) const;
  // Brightness to hue; `one`: white.
  void change_values(std::span<float> values, size_t channels, const Change& change, float one) const;
  void change_element(const Column& from, size_t element, std::span<const Change> changes, Column& to) const;

  AugmentImagesOptions options_;
  std::vector<size_t> columns_;
  uint64_t occurrence_;
  bool changes_contrast_;
  bool changes_colours_;
  bool changes_values_;
};

/// What `Dataset::augment_images` is called with.
struct AugmentImagesArguments {
  AugmentImagesOptions options = {};

  static constexpr auto fields() {
    using A = AugmentImagesArguments;
    return describe<A>("augment_images", field::inlined<&A::options>);
  }
};

}  // namespace millrace
