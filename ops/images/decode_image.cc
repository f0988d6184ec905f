#include "millrace/ops/images/decode_image.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/ops/parse/decoded_column.h"
#include "millrace/ops/parse/parsed_records.h"
#include "millrace/ops/parse/views_by_row.h"
#include "millrace/ops/row_number.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw ErrorException(ErrorCode::kInvalidArgument, "decode_image: " + why);
}

DecodeOptions decoding_of(const DecodeImageOptions& options) {
  const int64_t channels = options.channels;
  if (channels != 0 && channels != 1 && channels != 3 && channels != 4) {
    refuse(fmt::format("channels is {}, must be 0, 1, 3 or 4", channels));
  }
  if (options.least_side < 0) refuse(fmt::format("least_side is {}, must not be negative", options.least_side));
  if (options.max_pixels < 1) refuse(fmt::format("max_pixels is {}, must be at least 1", options.max_pixels));
  if (options.size && (options.size->size() != 2 || num_values(*options.size) == kVaries)) {
    refuse(fmt::format("size is {}, must be height and width", to_string(*options.size)));
  }
  DecodeOptions decoding{.channels = static_cast<int>(channels), .applies_orientation = options.upright};
  decoding.limits.most_pixels = options.max_pixels;
  if (options.background) {
    const Shape& colour = *options.background;
    if (colour.size() != 3 || !std::ranges::all_of(colour, [](int64_t v) { return v >= 0 && v <= 255; })) {
      refuse(fmt::format("background is {}, must be red, green and blue from 0 to 255", to_string(colour)));
    }
    if (channels == 4) refuse("a background leaves no alpha; ask for 3 channels");
    decoding.background.emplace();
    std::ranges::transform(colour, decoding.background->begin(), [](int64_t v) { return static_cast<uint8_t>(v); });
  }
  return decoding;
}

std::optional<CropWindow> window_of(const DecodeImageOptions& options) {
  if (!options.crop) return std::nullopt;
  return CropWindow(*options.crop, "decode_image");
}

// Of one picture.
Shape shape_of(const DecodeImageOptions& options) {
  Shape shape = options.size.value_or(Shape{kVaries, kVaries});
  if (const auto window = window_of(options)) {
    if (options.size) refuse("size is that of whole pictures, and crop keeps a part");
    if (const auto size = window->fixed_size()) shape = {size->first, size->second};
  }
  if (options.least_side > 0) shape = {kVaries, kVaries};
  shape.push_back(options.channels == 0 ? kVaries : options.channels);
  return shape;
}

void check_size(const ImageRegion& found, const Shape& size) {
  if (found.height == size[0] && found.width == size[1]) return;
  throw ErrorException(ErrorCode::kWrongShape, fmt::format("has {} x {} pixels, expected {} x {}", found.height,
                                                           found.width, size[0], size[1]));
}

int64_t shorter_side(const ImageRegion& region) { return std::min(region.height, region.width); }

int64_t divided(int64_t size, int64_t by) { return (size + by - 1) / by; }

// Makes the picture, and the region of it, as small as they may become.
void scale_down(ImageDecoder& decoder, int64_t least_side, ImageRegion& region) {
  if (least_side == 0 || decoder.info().format != ImageFormat::kJpeg) return;
  int denominator = 1;
  while (denominator < 8 && divided(shorter_side(region), 2 * denominator) >= least_side) denominator *= 2;
  if (denominator == 1) return;
  decoder.set_scale_denominator(denominator);
  region = {.top = region.top / denominator,
            .left = region.left / denominator,
            .height = divided(region.height, denominator),
            .width = divided(region.width, denominator)};
}

}  // namespace

DecodeImageOperator::Picture::Picture(const Schema& input, const std::string& feature, const DecodeImageOptions& of,
                                      uint64_t number)
    : column(static_cast<size_t>(input.column(feature))),
      shape(shape_of(of)),
      options(of),
      decoding(decoding_of(of)),
      window(window_of(of)),
      occurrence(number) {}

ImageRegion DecodeImageOperator::Picture::start(ImageDecoder& decoder, std::string_view bytes, const CounterRng& rng,
                                                uint64_t row) const {
  decoder.start(bytes, decoding);
  ImageRegion region = decoder.whole();
  if (options.size) check_size(region, *options.size);
  if (window) {
    if (const std::string why = window->why_not(region.height, region.width); !why.empty()) {
      throw ErrorException(ErrorCode::kWrongShape, why);
    }
    region = window->window(region.height, region.width, rng, row);
  }
  scale_down(decoder, options.least_side, region);
  return region;
}

DecodeImageOperator::DecodeImageOperator(const SchemaPtr& input, const std::string& feature,
                                         const DecodeImageOptions& options, uint64_t occurrence)
    : MapOperator(decoded_schema(*input, feature, DType::kUint8, shape_of(options), "decode_image")),
      pictures_{Picture(*input, feature, options, occurrence)},
      schemas_{schema()},
      batched_(false) {}

DecodeImageOperator::DecodeImageOperator(const SchemaPtr& input, std::vector<Picture> pictures)
    : MapOperator(schema_of(*input, pictures)), pictures_(std::move(pictures)), batched_(takes_batches(*input)) {
  for (size_t i = 1; i <= pictures_.size(); ++i) schemas_.push_back(schema_of(*input, std::span(pictures_).first(i)));
}

SchemaPtr DecodeImageOperator::schema_of(const Schema& input, std::span<const Picture> pictures) {
  std::vector<FeatureSpec> features = input.features();
  for (const Picture& picture : pictures) {
    FeatureSpec& feature = features[picture.column];
    feature.dtype = DType::kUint8;
    feature.shape.insert(feature.shape.end(), picture.shape.begin(), picture.shape.end());
  }
  return std::make_shared<const Schema>(std::move(features));
}

OperatorTraits DecodeImageOperator::traits() const {
  // No guess of what a picture takes, but so much that CutBlocks makes each a block of its own: blocks that wait hold
  // few pixels then.
  constexpr int64_t kOnePictureABlock = 16 << 20;
  const bool draws = std::ranges::any_of(pictures_, [](const Picture& picture) { return picture.is_drawn(); });
  return {.is_nonblocking = true,
          .uses_row_numbers = draws,
          .parses = draws ? Parses::kNothing : Parses::kValues,
          .parses_batches = batched_,
          .guessed_bytes = kOnePictureABlock};
}

std::shared_ptr<const MapOperator> DecodeImageOperator::fused(std::span<const std::shared_ptr<const MapOperator>> run,
                                                              const SchemaPtr& input) const {
  std::vector<Picture> pictures;
  for (const auto& op : run) {
    const auto* const one = dynamic_cast<const DecodeImageOperator*>(op.get());
    if (one == nullptr) return nullptr;
    pictures.insert(pictures.end(), one->pictures_.begin(), one->pictures_.end());
  }
  return std::shared_ptr<const MapOperator>(new DecodeImageOperator(input, std::move(pictures)));
}

Block DecodeImageOperator::apply(Block block, BufferPool& pool) const {
  if (batched_) return decode_batches(std::move(block), pool);
  ImageDecoder decoder;
  for (size_t i = 0; i < pictures_.size(); ++i) {
    const Picture& picture = pictures_[i];
    const CounterRng rng(picture.options.seed, operator_id(name(), picture.occurrence), block.iteration);
    const auto decode = [&](std::string_view bytes, ColumnBuilder& decoded) {
      const ImageRegion region = picture.start(decoder, bytes, rng, row_number(block, decoded.num_elements(), 0));
      decoder.decode(region, decoded.append_space<uint8_t>(Shape{region.height, region.width, decoder.channels()}));
    };
    block = decode_column(block, schemas_[i], picture.column, name(), pool, decode);
  }
  return block;
}

// Nothing is drawn here, and all pictures have one size. The first row with an error decides.
Block DecodeImageOperator::decode_batches(Block block, BufferPool& pool) const {
  const size_t rows = rows_in_each(block, block.column(pictures_[0].column), name());
  const CounterRng rng(0, 0);
  ImageDecoder decoder;
  Block::Columns columns = block.columns();
  block.mutable_columns().clear();
  std::vector<ViewsByRow> encoded;
  std::vector<Column> decoded;
  for (const Picture& picture : pictures_) {
    encoded.emplace_back(std::exchange(columns[picture.column], {}), rows);
    decoded.push_back(Column::fixed(pool, DType::kUint8, picture.shape, encoded.back().size()));
  }
  std::vector<ElementError> errors;
  for (size_t element = 0; element < block.num_elements(); ++element) {
    bool failed = !block.errors().empty() && block.error_at(element) != nullptr;
    for (size_t row = 0; row < rows; ++row) {
      const size_t place = element * rows + row;
      for (size_t p = 0; p < pictures_.size(); ++p) {
        try {
          if (!failed)
            decoder.decode(pictures_[p].start(decoder, encoded[p][place], rng, 0),
                           decoded[p].mutable_values<uint8_t>(place));
        } catch (const ErrorException& exception) {
          Error error = decoding_error((*schema())[pictures_[p].column], name(), exception);
          block.locate(element, row, error);
          errors.push_back({element, std::make_shared<const Error>(std::move(error))});
          failed = true;
        }
        encoded[p].done(place);
      }
    }
    for (Column& column : decoded) {
      if (!failed) break;
      for (size_t row = 0; row < rows; ++row)
        std::ranges::fill(column.mutable_values<uint8_t>(element * rows + row), uint8_t{0});
    }
  }
  for (size_t p = 0; p < pictures_.size(); ++p) columns[pictures_[p].column] = std::move(decoded[p]).grouped(rows);
  Block made = block.with_columns(schema(), std::move(columns));
  for (ElementError& entry : errors) made.add_error(entry.element, std::move(entry.error));
  return made;
}

}  // namespace millrace
