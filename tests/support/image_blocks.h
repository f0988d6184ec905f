#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "millrace/formats/columnar/block_builder.h"

namespace millrace::test {

// An image, or several of a batch: values of uint8 and int32 are whole.
struct TestImage {
  Shape shape = {};
  std::vector<double> values = {};
};

// 0, 1, 2, …; of uint8 from 0 again after 255.
inline TestImage counted_image(const Shape& shape) {
  TestImage image{shape, std::vector<double>(static_cast<size_t>(num_values(shape)))};
  for (size_t i = 0; i < image.values.size(); ++i) image.values[i] = static_cast<double>(i % 256);
  return image;
}

// An element of the feature "image" for each.
inline Block image_block(BufferPool& pool, DType dtype, const Shape& declared, const std::vector<TestImage>& images) {
  const FeatureSpec feature{"image", dtype, declared};
  BlockBuilder builder(std::make_shared<const Schema>(std::vector<FeatureSpec>{feature}), pool);
  for (const TestImage& image : images) {
    visit_dtype(dtype, [&]<typename T>() {
      if constexpr (std::is_arithmetic_v<T>) {
        std::vector<T> values;
        for (const double value : image.values) values.push_back(static_cast<T>(value));
        builder.column(0).append<T>(std::span<const T>(values), image.shape);
      }
    });
    builder.added_elements(1);
  }
  return builder.finish();
}

// The values of an element's feature, whatever its type.
inline std::vector<double> values_of(const Block& block, size_t element, size_t column = 0) {
  std::vector<double> values;
  visit_dtype(block.column(column).dtype(), [&]<typename T>() {
    if constexpr (std::is_arithmetic_v<T>) {
      for (const T value : block.column(column).values<T>(element)) values.push_back(static_cast<double>(value));
    }
  });
  return values;
}

}  // namespace millrace::test
