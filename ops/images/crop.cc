#include "millrace/ops/images/crop.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "millrace/ops/images/image_features.h"
#include "millrace/ops/row_number.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw ErrorException(ErrorCode::kInvalidArgument, "crop: " + why); }

std::vector<size_t> cropped_columns(const Schema& input, const std::vector<std::string>& features) {
  if (features.empty()) refuse("name the features; there are " + input.to_string());
  std::vector<size_t> columns;
  for (const std::string& name : features) {
    const size_t column = image_column(input, name, "crop");
    if (std::count(columns.begin(), columns.end(), column) > 0) refuse(fmt::format("'{}' is named twice", name));
    columns.push_back(column);
  }
  return columns;
}

bool may_be_equal(int64_t a, int64_t b) { return a == b || a == kVaries || b == kVaries; }

SchemaPtr cropped_schema(const Schema& input, const CropOptions& options) {
  const CropWindow window(options.window, "crop");
  const auto size = window.fixed_size();
  std::vector<FeatureSpec> features = input.features();
  const std::vector<size_t> columns = cropped_columns(input, options.features);
  const FeatureSpec& first = input[columns[0]];
  for (const size_t c : columns) {
    Shape& shape = features[c].shape;
    if (shape.size() != first.shape.size()) refuse("some features are batches and others are not");
    const ImageShape images(shape);
    const ImageShape others(first.shape);
    if (!may_be_equal(images.height, others.height) || !may_be_equal(images.width, others.width)) {
      refuse(fmt::format("'{}' has shape {} and '{}' {}; images that are cropped alike have one size", features[c].name,
                         to_string(shape), first.name, to_string(first.shape)));
    }
    if (!size && shape.size() == 4) {
      refuse(
          fmt::format("'{}' has shape {}, and random_resized gives each row a size of its own: it stands before "
                      "batch",
                      features[c].name, to_string(shape)));
    }
    const bool is_known = images.height != kVaries && images.width != kVaries;
    if (const std::string why = is_known ? window.why_not(images.height, images.width) : ""; !why.empty()) {
      refuse(fmt::format("feature '{}' has shape {}, and {}", features[c].name, to_string(shape), why));
    }
    shape = with_sides(shape, size ? size->first : kVaries, size ? size->second : kVaries);
  }
  return std::make_shared<const Schema>(std::move(features));
}

// `pixel_bytes`: of a pixel with all its channels.
void copy_region(const std::byte* image, int64_t width, const ImageRegion& region, size_t pixel_bytes, std::byte* to) {
  const size_t row_bytes = static_cast<size_t>(region.width) * pixel_bytes;
  for (int64_t y = region.top; y < region.top + region.height; ++y, to += row_bytes) {
    std::memcpy(to, image + static_cast<size_t>(y * width + region.left) * pixel_bytes, row_bytes);
  }
}

}  // namespace

CropOperator::CropOperator(const SchemaPtr& input, CropOptions options, uint64_t occurrence)
    : MapOperator(cropped_schema(*input, options)),
      options_(std::move(options)),
      window_(options_.window, name()),
      columns_(cropped_columns(*input, options_.features)),
      occurrence_(occurrence) {}

bool CropOperator::check_element(Block& block, size_t element) const {
  if (!has_images(block, element, columns_[0], name())) return false;
  const Shape first = block.column(columns_[0]).shape(element);
  const ImageShape images(first);
  for (const size_t c : columns_) {
    if (!has_images(block, element, c, name())) return false;
    const ImageShape others(block.column(c).shape(element));
    std::string why;
    if (others.count != images.count || others.height != images.height || others.width != images.width) {
      why = fmt::format("'{}' {}; images that are cropped alike have one size", (*schema())[columns_[0]].name,
                        to_string(first));
    } else {
      why = window_.why_not(others.height, others.width);
    }
    if (why.empty()) continue;
    refuse_element(block, element, c, name(), why);
    return false;
  }
  return true;
}

Block CropOperator::apply(Block block, BufferPool& pool) const {
  const CounterRng rng(options_.seed, operator_id(name(), occurrence_), block.iteration);
  // The images of all elements, one after the other.
  std::vector<ImageRegion> regions;
  std::vector<bool> is_cropped(block.num_elements());
  for (size_t element = 0; element < is_cropped.size(); ++element) {
    is_cropped[element] = check_element(block, element);
    if (!is_cropped[element]) continue;
    const ImageShape images(block.column(columns_[0]).shape(element));
    for (size_t row = 0; row < static_cast<size_t>(images.count); ++row) {
      regions.push_back(window_.window(images.height, images.width, rng, row_number(block, element, row)));
    }
  }
  Block::Columns columns = std::move(block.mutable_columns());
  for (const size_t c : columns_) {
    const Column from = columns[c];
    std::vector<Shape> shapes(is_cropped.size());
    for (size_t element = 0, next = 0; element < shapes.size(); ++element) {
      if (!is_cropped[element]) continue;
      const auto fixed = window_.fixed_size();
      const auto [height, width] = fixed ? *fixed : std::pair(regions[next].height, regions[next].width);
      shapes[element] = with_sides(from.shape(element), height, width);
      next += static_cast<size_t>(ImageShape(shapes[element]).count);
    }
    Column to = column_of_shapes(pool, (*schema())[c], shapes);
    const size_t value_bytes = size_of(from.dtype());
    for (size_t element = 0, next = 0; element < shapes.size(); ++element) {
      if (shapes[element].empty()) continue;
      const ImageShape before(from.shape(element));
      const ImageShape after(shapes[element]);
      for (size_t i = 0; i < static_cast<size_t>(before.count); ++i, ++next) {
        if (after.num_values() == 0) continue;
        copy_region(from.data(element) + i * before.num_values() * value_bytes, before.width, regions[next],
                    static_cast<size_t>(before.channels) * value_bytes,
                    to.mutable_data(element) + i * after.num_values() * value_bytes);
      }
    }
    columns[c] = std::move(to);
  }
  return block.with_columns(schema(), std::move(columns));
}

}  // namespace millrace
