#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "millrace/formats/image/decoder.h"
#include "millrace/ops/arguments.h"
#include "millrace/ops/images/crop_window.h"
#include "millrace/ops/operator.h"

namespace millrace {

class CounterRng;

struct DecodeImageOptions {
  int64_t channels = 3;  ///< 1 grey, 3 red, green, blue, 4 these and alpha; 0: as many as the picture has. Default: 3
  /// What height and width must be; the rest are the element's errors. Default: none, any
  std::optional<Shape> size = {};
  /// Red, green and blue, over which pixels are laid that are not opaque. Default: none, alpha is dropped, as
  /// TensorFlow does
  std::optional<Shape> background = {};
  /// The part of each picture that is decoded, drawn from `seed` where it is random. Default: none, all of it
  std::optional<ImageCrop> crop = {};
  uint64_t seed = 0;     ///< of random crops: another seed, other windows. Default: 0
  bool upright = false;  ///< whether a picture is turned as its EXIF orientation says. Default: false
  /// JPEGs are decoded at 1/2, 1/4 or 1/8 of their size, in less time, as long as no side of what is kept becomes
  /// shorter than this; PNGs are not. Default: 0, never
  int64_t least_side = 0;
  /// Height times width of the largest picture that is decoded; it is checked before memory is taken. Default: 2^28
  int64_t max_pixels = int64_t{1} << 28;

  static constexpr auto fields() {
    using A = DecodeImageOptions;
    return describe<A>("DecodeImageOptions", field::stream<&A::channels>, field::stream<&A::size>.as_shape(),
                       field::stream<&A::background>.as_shape(), field::stream<&A::crop>, field::stream<&A::seed>,
                       field::stream<&A::upright>, field::stream<&A::least_side>, field::stream<&A::max_pixels>);
  }
};

/// Decodes JPEG and PNG, told apart by their first bytes, in place of a feature.
///
///     image bytes []  ->  decode_image("image")  ->  image uint8 [?,?,3]
///                     ->  decode_image("image", {.channels = 1, .size = {{28, 28}}})  ->  image uint8 [28,28,1]
///
/// With a crop only what is kept is decoded: the same pixels as in the whole picture. A picture that is smaller than
/// the window is the error `wrong_shape`; windows that are drawn are others than those of a `crop` that follows. Pixels
/// are those of `tf.io.decode_jpeg` with `dct_method="INTEGER_ACCURATE"` and of `tf.io.decode_png` (see ImageDecoder).
/// Bytes that are no picture, one that is cut or damaged, and one beyond a limit are the element's error.
///
/// A rewrite moves it after shuffle, repeat and take, and pictures of a fixed size after batch, unless a crop is drawn:
/// until then they stay compressed. Several that stand next to each other move as one.
class DecodeImageOperator final : public MapOperator {
 public:
  /// `feature`: one `bytes` value per element. `occurrence`: how many of these stand before it. Throws
  /// `kInvalidArgument` for another feature, and for options that cannot be.
  DecodeImageOperator(const SchemaPtr& input, const std::string& feature, const DecodeImageOptions& options = {},
                      uint64_t occurrence = 0);
  std::string_view name() const override { return "decode_image"; }
  std::string remark() const override {
    return pictures_.size() == 1 ? "" : fmt::format("{} at once", pictures_.size());
  }
  OperatorTraits traits() const override;
  std::shared_ptr<const MapOperator> fused(std::span<const std::shared_ptr<const MapOperator>> run,
                                           const SchemaPtr& input) const override;
  Block apply(Block block, BufferPool& pool) const override;

 private:
  // One feature of the elements.
  struct Picture {
    Picture(const Schema& input, const std::string& feature, const DecodeImageOptions& options, uint64_t occurrence);
    [[nodiscard]] bool is_drawn() const { return window && window->is_random(); }
    // What is kept of it, made as small as it may become. Throws where it has another size than it must have.
    ImageRegion start(ImageDecoder& decoder, std::string_view bytes, const CounterRng& rng, uint64_t row) const;

    size_t column;
    Shape shape;
    DecodeImageOptions options;
    DecodeOptions decoding;
    std::optional<CropWindow> window;
    uint64_t occurrence;
  };
  // `input`: of rows, or of batches of them.
  DecodeImageOperator(const SchemaPtr& input, std::vector<Picture> pictures);
  static SchemaPtr schema_of(const Schema& input, std::span<const Picture> pictures);
  bool takes_batches(const Schema& input) const { return !input[pictures_[0].column].shape.empty(); }
  Block decode_batches(Block block, BufferPool& pool) const;

  std::vector<Picture> pictures_;
  std::vector<SchemaPtr> schemas_;  // after each picture; of rows
  bool batched_;
};

/// What `Dataset::decode_image` is called with.
struct DecodeImageArguments {
  std::string feature = {};
  DecodeImageOptions options = {};

  static constexpr auto fields() {
    using A = DecodeImageArguments;
    return describe<A>("decode_image", field::required<&A::feature>, field::inlined<&A::options>);
  }
};

}  // namespace millrace
