#include "millrace/ops/images/image_features.h"

#include <vector>

#include <fmt/format.h>

namespace millrace {

Shape with_sides(Shape shape, int64_t height, int64_t width) {
  shape[shape.size() - 3] = height;
  shape[shape.size() - 2] = width;
  return shape;
}

size_t image_column(const Schema& input, const std::string& feature, std::string_view method) {
  const auto column = static_cast<size_t>(input.column(feature));
  const FeatureSpec& spec = input[column];
  const bool has_pixels = spec.dtype == DType::kUint8 || spec.dtype == DType::kInt32 || spec.dtype == DType::kFloat32;
  if (!has_pixels || spec.is_ragged() || (spec.shape.size() != 3 && spec.shape.size() != 4)) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "{}: feature '{}' is {} {}, needs uint8, int32 or float32 [height,width,channels], or batches of them",
            method, feature, to_string(spec.dtype), to_string(spec.shape)));
  }
  return column;
}

void check_image_side(std::string_view method, std::string_view side, int64_t pixels) {
  if (pixels >= 1 && pixels <= kMostImageSide) return;
  throw ErrorException(ErrorCode::kInvalidArgument,
                       fmt::format("{}: {} is {}, must be from 1 to {}", method, side, pixels, kMostImageSide));
}

void refuse_element(Block& block, size_t element, size_t column, std::string_view method, std::string_view why) {
  Error error{.code = ErrorCode::kWrongShape,
              .message = fmt::format("{}: '{}' has shape {}, and {}", method, (*block.schema())[column].name,
                                     to_string(block.column(column).shape(element)), why)};
  block.locate(element, error);
  block.add_error(element, std::make_shared<const Error>(std::move(error)));
}

bool has_images(Block& block, size_t element, size_t column, std::string_view method) {
  if (!block.errors().empty() && block.error_at(element) != nullptr) return false;
  if (block.rows_per_element == 1 || block.column(column).rank() == 4) return true;
  refuse_element(block, element, column, method, "batches are [rows,height,width,channels]");
  return false;
}

Column column_of_shapes(BufferPool& pool, const FeatureSpec& feature, std::span<const Shape> shapes) {
  if (feature.has_fixed_shape()) return Column::fixed(pool, feature.dtype, feature.shape, shapes.size());
  const size_t rank = feature.shape.size();
  std::vector<int64_t> offsets{0};
  std::vector<int64_t> sizes;
  offsets.reserve(shapes.size() + 1);
  sizes.reserve(shapes.size() * rank);
  for (const Shape& shape : shapes) {
    offsets.push_back(offsets.back() + (shape.empty() ? 0 : num_values(shape)));
    if (shape.empty()) {
      sizes.insert(sizes.end(), rank, 0);
    } else {
      sizes.insert(sizes.end(), shape.begin(), shape.end());
    }
  }
  return Column::varying(pool, feature.dtype, static_cast<int>(rank), offsets, sizes);
}

bool has_too_many_values(const Shape& shape) {
  int64_t most = kMostElementValues;
  for (const int64_t size : shape) {
    if (size == 0) return false;
    if (size > most) return true;
    most /= size;
  }
  return false;
}

}  // namespace millrace
