#include "millrace/ops/images/augment_images.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/ops/images/batch_rows.h"
#include "millrace/ops/images/image_features.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw ErrorException(ErrorCode::kInvalidArgument, "augment_images: " + why);
}

void check_range(std::string_view what, const std::pair<double, double>& range) {
  const auto [low, high] = range;
  if (!(low >= 0 && low <= high) || !std::isfinite(high)) {
    refuse(fmt::format("{} is {} to {}, must rise from at least 0", what, low, high));
  }
}

bool changes_colours(const AugmentImagesOptions& options) {
  return options.saturation != std::pair(1.0, 1.0) || options.hue != 0;
}

std::vector<size_t> image_columns(const Schema& input, const AugmentImagesOptions& options) {
  if (options.features.empty()) refuse("name the features; there are " + input.to_string());
  std::vector<size_t> columns;
  size_t rank = 0;
  for (const std::string& name : options.features) {
    const size_t column = image_column(input, name, "augment_images");
    const Shape& shape = input[column].shape;
    if (changes_colours(options) && shape.back() != kVaries && shape.back() != 3) {
      refuse(fmt::format("feature '{}' has shape {}, and saturation and hue need 3 channels", name, to_string(shape)));
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
  check_range("contrast", options.contrast);
  check_range("saturation", options.saturation);
  if (!(options.hue >= 0 && options.hue <= 0.5)) refuse(fmt::format("hue is {}, must be from 0 to 0.5", options.hue));
  if (options.clip && !(options.clip->first < options.clip->second)) {
    refuse(fmt::format("clip is {} to {}, must rise", options.clip->first, options.clip->second));
  }
}

// In [-1, 1), of 32 bits.
double both_sides(uint32_t word) { return std::ldexp(static_cast<double>(word), -31) - 1; }

float between(const std::pair<double, double>& range, uint32_t word) {
  return static_cast<float>(range.first + (range.second - range.first) * (both_sides(word) + 1) / 2);
}

// Red, green and blue, of any scale, by way of HSV (Smith, "Color gamut transform pairs", 1978). The hue is in sixths.
void change_colour(float* rgb, float saturation_factor, float turns) {
  const float most = std::max({rgb[0], rgb[1], rgb[2]});
  const float range = most - std::min({rgb[0], rgb[1], rgb[2]});
  if (!(range > 0)) return;  // grey has no hue
  float hue = 0;
  if (rgb[0] == most) {
    hue = (rgb[1] - rgb[2]) / range;
  } else if (rgb[1] == most) {
    hue = 2 + (rgb[2] - rgb[0]) / range;
  } else {
    hue = 4 + (rgb[0] - rgb[1]) / range;
  }
  hue += 6 * turns;
  // The saturation, chroma over value, is at most 1; values below 0 have none.
  const float chroma = most > 0 ? std::min(range * saturation_factor, most) : range * saturation_factor;
  for (int c = 0; c < 3; ++c) {
    // How far the hue is from that of the channel, around the circle: up to 1 all of it, from 2 on nothing.
    float distance = std::fmod(std::abs(hue - static_cast<float>(2 * c)), 6.0F);
    distance = std::min(distance, 6 - distance);
    rgb[c] = most - chroma * std::clamp(distance - 1, 0.0F, 1.0F);
  }
}

// Where the pixel (y, x) of the changed image comes from: the pixel origin + y * down + x * right.
struct Source {
  int64_t origin;
  int64_t down;
  int64_t right;
};

template <typename T>
void move_pixels(const T* from, const Shape& shape, const Source& source, T* to) {
  const int64_t channels = shape[2];
  for (int64_t y = 0; y < shape[0]; ++y) {
    for (int64_t x = 0; x < shape[1]; ++x, to += channels) {
      const T* pixel = from + (source.origin + y * source.down + x * source.right) * channels;
      for (int64_t c = 0; c < channels; ++c) to[c] = pixel[c];
    }
  }
}

// kChannels: 0 for any number.
template <size_t kChannels, typename T>
void flip_row(T* row, size_t width, size_t any_channels) {
  const size_t channels = kChannels > 0 ? kChannels : any_channels;
  T* right = row + width * channels;
  for (T* left = row; left + channels < right; left += channels) {
    right -= channels;
    std::swap_ranges(left, left + channels, right);
  }
}

template <size_t kChannels, typename T>
void flip_rows(T* image, size_t height, size_t width, size_t channels) {
  for (size_t y = 0; y < height; ++y) flip_row<kChannels>(image + y * width * channels, width, channels);
}

// Upside down.
template <typename T>
void reverse_rows(T* image, size_t height, size_t length) {
  for (size_t y = 0; y < height / 2; ++y) {
    std::swap_ranges(image + y * length, image + (y + 1) * length, image + (height - 1 - y) * length);
  }
}

}  // namespace

AugmentImagesOperator::AugmentImagesOperator(const SchemaPtr& input, AugmentImagesOptions options, uint64_t occurrence)
    : MapOperator(input),
      options_(std::move(options)),
      columns_(image_columns(*input, options_)),
      occurrence_(occurrence),
      changes_contrast_(options_.contrast != std::pair(1.0, 1.0)),
      changes_colours_(changes_colours(options_)),
      changes_values_(options_.brightness > 0 || changes_contrast_ || changes_colours_) {
  check_numbers(options_);
}

// Draws, which states rely on: of draw 0 of a row word 0 turns, the two highest bits of word 1 flip, word 2 is the
// brightness and word 3 the contrast, whatever of these is asked for; of draw 1 word 0 is the saturation and word 1
// the hue.
AugmentImagesOperator::Change AugmentImagesOperator::drawn(const CounterRng& rng, uint64_t row) const {
  const CounterRng::Words words = rng.words(row);
  Change change;
  if (options_.rotate) change.quarter_turns = words[0] >> 30;
  change.flip_left_right = options_.flip_left_right && (words[1] >> 31 & 1) != 0;
  change.flip_up_down = options_.flip_up_down && (words[1] >> 30 & 1) != 0;
  change.added = static_cast<float>(options_.brightness * both_sides(words[2]));
  change.factor = between(options_.contrast, words[3]);
  if (changes_colours_) {
    const CounterRng::Words more = rng.words(row, 1);
    change.saturation = between(options_.saturation, more[0]);
    change.hue = static_cast<float>(options_.hue * both_sides(more[1]));
  }
  return change;
}

void AugmentImagesOperator::change_values(std::span<float> values, size_t channels, const Change& change,
                                          float one) const {
  const float added = one * change.added;
  const size_t num_pixels = values.size() / channels;
  for (size_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (size_t i = c; i < values.size(); i += channels) sum += static_cast<double>(values[i]);
    const float mean = static_cast<float>(sum / static_cast<double>(num_pixels)) + added;
    for (size_t i = c; i < values.size(); i += channels) {
      const float value = values[i] + added;
      values[i] = changes_contrast_ ? (value - mean) * change.factor + mean : value;
    }
  }
  if (!changes_colours_) return;
  for (size_t i = 0; i < values.size(); i += channels) change_colour(&values[i], change.saturation, change.hue);
}

template <typename T>
void AugmentImagesOperator::change_image(const T* from, const Shape& shape, const Change& change, T* to) const {
  const auto height = static_cast<size_t>(shape[0]);
  const auto width = static_cast<size_t>(shape[1]);
  const auto channels = static_cast<size_t>(shape[2]);
  if (change.quarter_turns > 0) {
    const int64_t last = shape[0] - 1;  // turned images are square
    Source source{0, shape[1], 1};
    for (uint32_t turn = 0; turn < change.quarter_turns; ++turn) {
      source = {source.origin + last * source.right, -source.right, source.down};
    }
    if (change.flip_left_right) source = {source.origin + last * source.right, source.down, -source.right};
    if (change.flip_up_down) source = {source.origin + last * source.down, -source.down, source.right};
    move_pixels(from, shape, source, to);
  } else {
    if (from != to) std::copy(from, from + height * width * channels, to);
    if (change.flip_left_right && channels == 3) flip_rows<3>(to, height, width, channels);
    if (change.flip_left_right && channels != 3) flip_rows<0>(to, height, width, channels);
    if (change.flip_up_down) reverse_rows(to, height, width * channels);
  }
  if (!changes_values_) return;
  const std::span<T> changed(to, height * width * channels);
  if constexpr (std::is_floating_point_v<T>) {
    change_values(changed, channels, change, 1);
    if (!options_.clip) return;
    const auto [low, high] = *options_.clip;
    for (T& value : changed) value = std::clamp(value, static_cast<float>(low), static_cast<float>(high));
  } else {
    std::vector<float> values(changed.begin(), changed.end());
    change_values(values, channels, change, 255);
    for (size_t i = 0; i < values.size(); ++i) {
      changed[i] = static_cast<T>(std::lround(std::clamp(values[i], 0.0F, 255.0F)));
    }
  }
}

void AugmentImagesOperator::change_element(const Column& from, size_t element, std::span<const Change> changes,
                                           Column& to) const {
  const Shape shape = from.shape(element);
  const Shape image(shape.end() - 3, shape.end());
  const auto size = static_cast<size_t>(num_values(image));
  for (size_t row = 0; row < changes.size() && size > 0; ++row) {
    visit_image_dtype(from.dtype(), [&]<typename T>() {
      change_image(from.values<T>(element).data() + row * size, image, changes[row],
                   to.mutable_values<T>(element).data() + row * size);
    });
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
    } else if (changes_colours_ && shape.back() != 3) {
      what = "saturation and hue need 3 channels";
    } else {
      continue;
    }
    refuse_element(block, element, c, name(), what);
  }
}

Block AugmentImagesOperator::apply(Block block, BufferPool& pool) const {
  const bool batches = (*schema())[columns_[0]].shape.size() == 4;
  if (batches) expect_batches(block, columns_, name());
  const CounterRng rng(options_.seed, operator_id(name(), occurrence_), block.iteration);
  // Memory that nobody else can see is written again: fresh memory would have to come into the cache first.
  const bool may_write_there =
      !options_.rotate && std::ranges::all_of(columns_, [&](size_t c) { return block.column(c).is_only_owner(); });
  const Block::Columns original = block.columns();
  for (const size_t c : columns_) {
    if (!may_write_there) block.mutable_columns()[c] = Column::like(pool, original[c].dtype(), original[c]);
  }
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
