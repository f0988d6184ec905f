#include "millrace/ops/images/pad.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "millrace/ops/images/image_features.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw ErrorException(ErrorCode::kInvalidArgument, "pad: " + why); }

bool can_hold(DType dtype, double value) {
  if (dtype == DType::kFloat32) return !std::isfinite(value) || std::abs(value) <= std::numeric_limits<float>::max();
  return std::abs(value) <= 0x1p32 && std::trunc(value) == value && holds_integer(dtype, static_cast<int64_t>(value));
}

// Why images of this shape cannot be padded; empty where they can. Sizes may be unknown.
std::string why_not(const PadOptions& options, const Shape& shape) {
  const ImageShape images(shape);
  if (images.height > options.height || images.width > options.width) {
    return fmt::format("is larger than the {} x {} pixels that it is padded to", options.height, options.width);
  }
  if (num_values(shape) >= 0 && has_too_many_values(with_sides(shape, options.height, options.width))) {
    return fmt::format("of {} x {} pixels it would have more than {} values", options.height, options.width,
                       kMostElementValues);
  }
  return "";
}

SchemaPtr padded_schema(const Schema& input, const PadOptions& options) {
  check_image_side("pad", "height", options.height);
  check_image_side("pad", "width", options.width);
  std::vector<FeatureSpec> features = input.features();
  FeatureSpec& feature = features[image_column(input, options.feature, "pad")];
  if (!can_hold(feature.dtype, options.value)) {
    refuse(fmt::format("value is {}, which {} of '{}' cannot hold", options.value, to_string(feature.dtype),
                       feature.name));
  }
  if (const std::string why = why_not(options, feature.shape); !why.empty()) {
    refuse(fmt::format("feature '{}' has shape {}, and {}", feature.name, to_string(feature.shape), why));
  }
  feature.shape = with_sides(feature.shape, options.height, options.width);
  return std::make_shared<const Schema>(std::move(features));
}

template <typename T>
void pad_images(const Column& from, size_t element, const PadOptions& options, Column& to) {
  const ImageShape images(from.shape(element));
  const std::span<T> padded = to.mutable_values<T>(element);
  std::fill(padded.begin(), padded.end(), static_cast<T>(options.value));
  const auto size = static_cast<std::ptrdiff_t>(images.num_values());
  if (size == 0) return;
  const bool in_the_centre = options.kind == PadKind::kCentre;
  const int64_t top = in_the_centre ? (options.height - images.height) / 2 : 0;
  const int64_t left = in_the_centre ? (options.width - images.width) / 2 : 0;
  const std::ptrdiff_t row_length = images.width * images.channels;
  const T* image = from.values<T>(element).data();
  for (int64_t i = 0; i < images.count; ++i, image += size) {
    T* out = padded.data() + ((i * options.height + top) * options.width + left) * images.channels;
    for (int64_t y = 0; y < images.height; ++y, out += options.width * images.channels) {
      std::copy_n(image + y * row_length, row_length, out);
    }
  }
}

}  // namespace

PadOperator::PadOperator(const SchemaPtr& input, const PadOptions& options)
    : MapOperator(padded_schema(*input, options)),
      options_(options),
      column_(image_column(*input, options.feature, name())) {}

Block PadOperator::apply(Block block, BufferPool& pool) const {
  const Column from = block.column(column_);
  std::vector<Shape> shapes(block.num_elements());
  for (size_t element = 0; element < shapes.size(); ++element) {
    if (!has_images(block, element, column_, name())) continue;
    Shape shape = from.shape(element);
    if (const std::string why = why_not(options_, shape); !why.empty()) {
      refuse_element(block, element, column_, name(), why);
      continue;
    }
    shapes[element] = with_sides(std::move(shape), options_.height, options_.width);
  }
  Column to = column_of_shapes(pool, (*schema())[column_], shapes);
  for (size_t element = 0; element < shapes.size(); ++element) {
    if (shapes[element].empty()) continue;
    visit_image_dtype(from.dtype(), [&]<typename T>() { pad_images<T>(from, element, options_, to); });
  }
  Block::Columns columns = std::move(block.mutable_columns());
  columns[column_] = std::move(to);
  return block.with_columns(schema(), std::move(columns));
}

}  // namespace millrace
