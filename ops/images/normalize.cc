#include "millrace/ops/images/normalize.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "millrace/ops/images/image_features.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw ErrorException(ErrorCode::kInvalidArgument, "normalize: " + why);
}

// For how many channels there are numbers; 1: for any.
size_t channels_of(const NormalizeOptions& options) {
  const size_t means = options.mean.size();
  const size_t deviations = options.standard_deviation.size();
  if (means == 0 || deviations == 0) refuse("give mean and standard_deviation, of each channel or one for all");
  if (means != deviations && means != 1 && deviations != 1) {
    refuse(fmt::format("mean is of {} channels and standard_deviation of {}", means, deviations));
  }
  for (const double mean : options.mean) {
    if (!std::isfinite(static_cast<float>(mean))) refuse(fmt::format("mean is {}, must be finite", mean));
  }
  for (const double deviation : options.standard_deviation) {
    if (const auto rounded = static_cast<float>(deviation); !(rounded > 0) || !std::isfinite(rounded)) {
      refuse(fmt::format("standard_deviation is {}, must be above 0 and finite", deviation));
    }
  }
  return std::max(means, deviations);
}

Shape normalized_shape(Shape shape, bool channels_first) {
  if (channels_first) std::rotate(shape.end() - 3, shape.end() - 1, shape.end());
  return shape;
}

SchemaPtr normalized_schema(const Schema& input, const NormalizeOptions& options) {
  const size_t channels = channels_of(options);
  std::vector<FeatureSpec> features = input.features();
  FeatureSpec& feature = features[image_column(input, options.feature, "normalize")];
  const int64_t known = feature.shape.back();
  if (known != kVaries && channels != 1 && static_cast<size_t>(known) != channels) {
    refuse(fmt::format("feature '{}' has shape {}, and there are numbers of {} channels", feature.name,
                       to_string(feature.shape), channels));
  }
  feature.dtype = DType::kFloat32;
  feature.shape = normalized_shape(feature.shape, options.channels_first);
  return std::make_shared<const Schema>(std::move(features));
}

// Of so many pixels that a loop over them is long, whatever the number of channels.
std::vector<float> repeated(const std::vector<double>& numbers, size_t channels) {
  constexpr size_t kLeast = 64;
  std::vector<float> all(channels * ((kLeast + channels - 1) / channels));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(numbers[i % numbers.size()]);
  return all;
}

// Up to as many values as there are means; `in` may be `out`.
template <typename T>
void normalize_some(const T* in, size_t count, const float* means, const float* deviations, float* out) {
  if constexpr (std::is_same_v<T, float>) {
    // One array, so that the compiler sees that nothing overlaps.
    if (in == out) {
      for (size_t i = 0; i < count; ++i) out[i] = (out[i] - means[i]) / deviations[i];
      return;
    }
  }
  for (size_t i = 0; i < count; ++i) out[i] = (static_cast<float>(in[i]) - means[i]) / deviations[i];
}

}  // namespace

NormalizeOperator::NormalizeOperator(const SchemaPtr& input, NormalizeOptions options)
    : MapOperator(normalized_schema(*input, options)),
      options_(std::move(options)),
      column_(image_column(*input, options_.feature, name())),
      channels_(channels_of(options_)),
      means_(repeated(options_.mean, channels_)),
      deviations_(repeated(options_.standard_deviation, channels_)) {}

template <typename T>
void NormalizeOperator::normalize(const Column& from, size_t element, Column& to) const {
  const std::span<const T> values = from.values<T>(element);
  const std::span<float> normalized = to.mutable_values<float>(element);
  if (values.empty()) return;
  if (!options_.channels_first) {
    for (size_t first = 0; first < values.size(); first += means_.size()) {
      normalize_some(values.data() + first, std::min(means_.size(), values.size() - first), means_.data(),
                     deviations_.data(), normalized.data() + first);
    }
    return;
  }
  const ImageShape images(from.shape(element));
  const auto channels = static_cast<size_t>(images.channels);
  const size_t size = images.num_values();
  for (size_t first = 0; first < values.size(); first += size) {
    for (size_t c = 0; c < channels; ++c) {
      const float mean = means_[c % channels_];
      const float deviation = deviations_[c % channels_];
      const T* in = values.data() + first + c;
      float* out = normalized.data() + first + c * (size / channels);
      for (size_t i = 0; i < size / channels; ++i) out[i] = (static_cast<float>(in[i * channels]) - mean) / deviation;
    }
  }
}

Block NormalizeOperator::apply(Block block, BufferPool& pool) const {
  const bool may_write_there = !options_.channels_first && block.column(column_).dtype() == DType::kFloat32 &&
                               block.column(column_).is_only_owner();
  const Column from = block.column(column_);
  std::vector<Shape> shapes(block.num_elements());
  for (size_t element = 0; element < shapes.size(); ++element) {
    if (!has_images(block, element, column_, name())) continue;
    Shape shape = from.shape(element);
    if (channels_ != 1 && static_cast<size_t>(shape.back()) != channels_) {
      refuse_element(block, element, column_, name(), fmt::format("there are numbers of {} channels", channels_));
      continue;
    }
    shapes[element] = normalized_shape(std::move(shape), options_.channels_first);
  }
  // Memory that nobody else can see is written again: fresh memory would have to come into the cache first.
  Column to = may_write_there ? from : column_of_shapes(pool, (*schema())[column_], shapes);
  for (size_t element = 0; element < shapes.size(); ++element) {
    if (shapes[element].empty()) continue;
    visit_image_dtype(from.dtype(), [&]<typename T>() { normalize<T>(from, element, to); });
  }
  Block::Columns columns = std::move(block.mutable_columns());
  columns[column_] = std::move(to);
  return block.with_columns(schema(), std::move(columns));
}

}  // namespace millrace
