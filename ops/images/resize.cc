#include "millrace/ops/images/resize.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "millrace/ops/images/image_features.h"
#include "millrace/ops/images/resize_kernel.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw ErrorException(ErrorCode::kInvalidArgument, "resize: " + why);
}

// Of an image with these sides, which are known and not 0.
std::pair<int64_t, int64_t> resized_sides(const ResizeOptions& options, int64_t height, int64_t width) {
  if (options.height) return {*options.height, *options.width};
  const bool is_shorter = options.shorter_side.has_value();
  const int64_t side = is_shorter ? *options.shorter_side : *options.longer_side;
  if ((height < width) == is_shorter) return {side, std::max<int64_t>(1, side * width / height)};
  return {std::max<int64_t>(1, side * height / width), side};
}

void check_sizes(const ResizeOptions& options) {
  const bool has_size = options.height && options.width;
  if (options.height.has_value() != options.width.has_value() ||
      has_size + options.shorter_side.has_value() + options.longer_side.has_value() != 1) {
    refuse("give height and width, or shorter_side, or longer_side");
  }
  using Side = std::pair<std::string_view, std::optional<int64_t>>;
  for (const auto& [name, side] :
       {Side{"height", options.height}, Side{"width", options.width}, Side{"shorter_side", options.shorter_side},
        Side{"longer_side", options.longer_side}}) {
    if (side) check_image_side("resize", name, *side);
  }
}

bool gives_floats(const ResizeOptions& options) {
  return options.method != ResizeMethod::kNearest && !options.keep_dtype;
}

// Why images of this shape, in which all is known, cannot be resized; empty where they can.
std::string why_not(const ResizeOptions& options, const Shape& shape) {
  const ImageShape images(shape);
  if (images.height == 0 || images.width == 0) return "an image without pixels has no other size";
  if (std::max(images.height, images.width) > INT32_MAX) return "sides have less than 2^31 pixels";
  const auto [height, width] = resized_sides(options, images.height, images.width);
  if (std::max(height, width) > kMostImageSide) {
    return fmt::format("the longer side would have {} pixels, at most {}", std::max(height, width), kMostImageSide);
  }
  if (has_too_many_values(with_sides(shape, height, width))) {
    return fmt::format("of {} x {} pixels it would have more than {} values", height, width, kMostElementValues);
  }
  return "";
}

SchemaPtr resized_schema(const Schema& input, const ResizeOptions& options) {
  check_sizes(options);
  std::vector<FeatureSpec> features = input.features();
  FeatureSpec& feature = features[image_column(input, options.feature, "resize")];
  const ImageShape images(feature.shape);
  const bool is_known = images.height > 0 && images.width > 0;
  if (num_values(feature.shape) > 0) {
    if (const std::string why = why_not(options, feature.shape); !why.empty()) {
      refuse(fmt::format("feature '{}' has shape {}, and {}", feature.name, to_string(feature.shape), why));
    }
  }
  if (options.height || (is_known && std::max(images.height, images.width) <= INT32_MAX)) {
    const auto [height, width] = resized_sides(options, images.height, images.width);
    feature.shape = with_sides(feature.shape, height, width);
  } else {
    feature.shape = with_sides(feature.shape, kVaries, kVaries);
  }
  if (gives_floats(options)) feature.dtype = DType::kFloat32;
  return std::make_shared<const Schema>(std::move(features));
}

// Halves become even.
template <typename T>
T rounded(float value) {
  constexpr double kWholeFromHere = 0x1.8p52;  // a double of this size has no fraction
  const double cut = std::clamp<double>(value, std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max());
  return static_cast<T>(cut + kWholeFromHere - kWholeFromHere);
}

template <typename T>
void resize_images(const Column& from, size_t element, ResizeMethod method, ResizeKernel& kernel, BufferPool& pool,
                   Column& to) {
  const ImageShape images(from.shape(element));
  const auto channels = static_cast<size_t>(images.channels);
  const auto count = static_cast<size_t>(images.count);
  if (channels == 0 || count == 0) return;
  const T* image = from.values<T>(element).data();
  const size_t resized_size = static_cast<size_t>(to.num_values(element)) / count;
  const bool rounds = method != ResizeMethod::kNearest && to.dtype() != DType::kFloat32;
  CountedVector<float> sums(rounds ? resized_size : 0, CountedAllocator<float>(pool));
  for (size_t i = 0; i < count; ++i, image += images.num_values()) {
    if (method == ResizeMethod::kNearest) {
      kernel.copy_nearest(reinterpret_cast<const std::byte*>(image), channels * sizeof(T),
                          to.mutable_data(element) + i * resized_size * sizeof(T));
    } else if (rounds) {
      kernel.resize(image, channels, sums.data());
      std::ranges::transform(sums, to.mutable_values<T>(element).data() + i * resized_size, rounded<T>);
    } else {
      kernel.resize(image, channels, to.mutable_values<float>(element).data() + i * resized_size);
    }
  }
}

}  // namespace

ResizeOperator::ResizeOperator(const SchemaPtr& input, const ResizeOptions& options)
    : MapOperator(resized_schema(*input, options)),
      options_(options),
      column_(image_column(*input, options.feature, name())) {}

Block ResizeOperator::apply(Block block, BufferPool& pool) const {
  const Column from = block.column(column_);
  std::vector<Shape> shapes(block.num_elements());
  for (size_t element = 0; element < shapes.size(); ++element) {
    if (!has_images(block, element, column_, name())) continue;
    Shape shape = from.shape(element);
    if (const std::string why = why_not(options_, shape); !why.empty()) {
      refuse_element(block, element, column_, name(), why);
      continue;
    }
    const ImageShape images(shape);
    const auto [height, width] = resized_sides(options_, images.height, images.width);
    shapes[element] = with_sides(std::move(shape), height, width);
  }
  Column to = column_of_shapes(pool, (*schema())[column_], shapes);
  std::optional<ResizeKernel> kernel;
  for (size_t element = 0; element < shapes.size(); ++element) {
    if (shapes[element].empty()) continue;
    const ImageShape before(from.shape(element));
    const ImageShape after(shapes[element]);
    // Neighbours of one size have the same weights.
    if (!kernel || !kernel->fits(before.height, before.width, after.height, after.width)) {
      kernel.emplace(pool, options_.method, options_.antialias, before.height, before.width, after.height, after.width);
    }
    visit_image_dtype(from.dtype(),
                      [&]<typename T>() { resize_images<T>(from, element, options_.method, *kernel, pool, to); });
  }
  Block::Columns columns = std::move(block.mutable_columns());
  columns[column_] = std::move(to);
  return block.with_columns(schema(), std::move(columns));
}

}  // namespace millrace
