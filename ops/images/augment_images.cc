#include "millrace/ops/images/augment_images.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/ops/images/batch_rows.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw ErrorException(ErrorCode::kInvalidArgument, "augment_images: " + why);
}

std::vector<size_t> image_columns(const Schema& input, const AugmentImagesOptions& options) {
  if (options.features.empty()) refuse("name the features; there are " + input.to_string());
  std::vector<size_t> columns;
  size_t rank = 0;
  for (const std::string& name : options.features) {
    const auto column = static_cast<size_t>(input.column(name));
    const FeatureSpec& feature = input[column];
    const Shape& shape = feature.shape;
    if (feature.dtype == DType::kBytes || feature.dtype == DType::kInt64 || feature.is_ragged() ||
        (shape.size() != 3 && shape.size() != 4)) {
      refuse(fmt::format("feature '{}' is {} {}, needs int32 or float32 [height,width,channels], or batches of them",
                         name, to_string(feature.dtype), to_string(shape)));
    }
    if (rank != 0 && rank != shape.size()) refuse(fmt::format("'{}' is a batch and others are not, or they are", name));
    rank = shape.size();
    const int64_t height = shape[rank - 3];
    const int64_t width = shape[rank - 2];
    if (options.rotate && height != kVaries && width != kVaries && height != width) {
      refuse(fmt::format("feature '{}' has shape {}, and only square images are rotated", name, to_string(shape)));
    }
    if (std::count(columns.begin(), columns.end(), column) > 0) refuse(fmt::format("'{}' is named twice", name));
    columns.push_back(column);
  }
  return columns;
}

void check_numbers(const AugmentImagesOptions& options) {
  if (!(options.brightness >= 0) || !std::isfinite(options.brightness)) {
    refuse(fmt::format("brightness is {}, must be at least 0", options.brightness));
  }
  const auto [low, high] = options.contrast;
  if (!(low >= 0 && low <= high) || !std::isfinite(high)) {
    refuse(fmt::format("contrast is {} to {}, must rise from at least 0", low, high));
  }
  if (options.clip && !(options.clip->first < options.clip->second)) {
    refuse(fmt::format("clip is {} to {}, must rise", options.clip->first, options.clip->second));
  }
}

// In [-1, 1), of 32 bits.
double both_sides(uint32_t word) { return std::ldexp(static_cast<double>(word), -31) - 1; }

// Where the pixel (y, x) of the changed image comes from: the pixel origin + y * down + x * right.
struct Source {
  int64_t origin;
  int64_t down;
  int64_t right;
};

}  // namespace

AugmentImagesOperator::AugmentImagesOperator(const SchemaPtr& input, AugmentImagesOptions options, uint64_t occurrence)
    : MapOperator(input),
      options_(std::move(options)),
      columns_(image_columns(*input, options_)),
      occurrence_(occurrence),
      changes_contrast_(options_.contrast != std::pair(1.0, 1.0)),
      changes_values_(options_.brightness > 0 || changes_contrast_) {
  check_numbers(options_);
}

// Draws, which states rely on: of draw 0 of a row word 0 turns, the two highest bits of word 1 flip, word 2 is the
// brightness and word 3 the contrast, whatever of these is asked for.
AugmentImagesOperator::Change AugmentImagesOperator::drawn(const CounterRng& rng, uint64_t row) const {
  const CounterRng::Words words = rng.words(row);
  Change change;
  if (options_.rotate) change.quarter_turns = words[0] >> 30;
  change.flip_left_right = options_.flip_left_right && (words[1] >> 31 & 1) != 0;
  change.flip_up_down = options_.flip_up_down && (words[1] >> 30 & 1) != 0;
  change.added = static_cast<float>(options_.brightness * both_sides(words[2]));
  const auto [low, high] = options_.contrast;
  change.factor = static_cast<float>(low + (high - low) * (both_sides(words[3]) + 1) / 2);
  return change;
}

template <typename T>
void AugmentImagesOperator::change_image(const T* from, const Shape& shape, const Change& change, T* to) const {
  const int64_t height = shape[0];
  const int64_t width = shape[1];
  const int64_t channels = shape[2];
  Source source{0, width, 1};
  for (uint32_t turn = 0; turn < change.quarter_turns; ++turn) {
    source = {source.origin + (width - 1) * source.right, -source.right, source.down};
  }
  if (change.flip_left_right) source = {source.origin + (width - 1) * source.right, source.down, -source.right};
  if (change.flip_up_down) source = {source.origin + (height - 1) * source.down, -source.down, source.right};
  T* pixel = to;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x, pixel += channels) {
      const T* other = from + (source.origin + y * source.down + x * source.right) * channels;
      for (int64_t c = 0; c < channels; ++c) pixel[c] = other[c];
    }
  }
  if (!changes_values_) return;
  const int64_t num_values = height * width * channels;
  const float added = std::is_same_v<T, int32_t> ? 255 * change.added : change.added;
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (int64_t i = c; i < num_values; i += channels) sum += static_cast<double>(to[i]);
    const float mean = static_cast<float>(sum / static_cast<double>(height * width)) + added;
    for (int64_t i = c; i < num_values; i += channels) {
      float value = static_cast<float>(to[i]) + added;
      if (changes_contrast_) value = (value - mean) * change.factor + mean;
      if constexpr (std::is_same_v<T, int32_t>) {
        to[i] = static_cast<int32_t>(std::lround(std::clamp(value, 0.0F, 255.0F)));
      } else {
        if (options_.clip) {
          value =
              std::clamp(value, static_cast<float>(options_.clip->first), static_cast<float>(options_.clip->second));
        }
        to[i] = value;
      }
    }
  }
}

void AugmentImagesOperator::change_element(const Column& from, size_t element, std::span<const Change> changes,
                                           Column& to) const {
  const Shape shape = from.shape(element);
  const Shape image(shape.end() - 3, shape.end());
  const auto size = static_cast<size_t>(num_values(image));
  for (size_t row = 0; row < changes.size() && size > 0; ++row) {
    if (from.dtype() == DType::kInt32) {
      change_image(from.values<int32_t>(element).data() + row * size, image, changes[row],
                   to.mutable_values<int32_t>(element).data() + row * size);
    } else {
      change_image(from.values<float>(element).data() + row * size, image, changes[row],
                   to.mutable_values<float>(element).data() + row * size);
    }
  }
}

void AugmentImagesOperator::check_element(Block& block, size_t element) const {
  for (const size_t c : columns_) {
    if (!block.errors().empty() && block.error_at(element) != nullptr) return;
    const Shape shape = block.column(c).shape(element);
    std::string_view what;
    if (options_.rotate && shape[shape.size() - 3] != shape[shape.size() - 2]) {
      what = "only square images are rotated";
    } else if (shape.size() == 3 && block.rows_per_element != 1) {
      what = "batches are [rows,height,width,channels]";
    } else {
      continue;
    }
    Error error{.code = ErrorCode::kWrongShape,
                .message = fmt::format("augment_images: '{}' has shape {}, and {}", (*schema())[c].name,
                                       to_string(shape), what)};
    block.locate(element, error);
    block.add_error(element, std::make_shared<const Error>(std::move(error)));
  }
}

Block AugmentImagesOperator::apply(Block block, BufferPool& pool) const {
  const bool batches = (*schema())[columns_[0]].shape.size() == 4;
  if (batches) expect_batches(block, columns_, name());
  const CounterRng rng(options_.seed, operator_id(name(), occurrence_), block.iteration);
  const Block::Columns original = block.columns();
  for (const size_t c : columns_) block.mutable_columns()[c] = Column::like(pool, original[c].dtype(), original[c]);
  std::vector<Change> changes(batches ? static_cast<size_t>(block.rows_per_element) : 1);
  for (size_t element = 0; element < block.num_elements(); ++element) {
    check_element(block, element);
    if (!block.errors().empty() && block.error_at(element) != nullptr) continue;
    for (size_t row = 0; row < changes.size(); ++row) changes[row] = drawn(rng, first_row_of(block, element) + row);
    for (const size_t c : columns_) change_element(original[c], element, changes, block.mutable_columns()[c]);
  }
  return block;
}

}  // namespace millrace
