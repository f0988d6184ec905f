#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "millrace/formats/columnar/block.h"

namespace millrace {

/// What maps on images have in common. Images are uint8, int32 or float32 [height,width,channels], or several of one
/// shape in an element, [rows,height,width,channels]: the images of a batch, or the frames of a clip.

/// The most pixels that the side of an image may be asked to have.
constexpr int64_t kMostImageSide = int64_t{1} << 16;

/// The images of an element.
struct ImageShape {
  /// `shape`: of rank 3 or 4.
  explicit ImageShape(const Shape& shape)
      : count(shape.size() == 4 ? shape[0] : 1),
        height(shape[shape.size() - 3]),
        width(shape[shape.size() - 2]),
        channels(shape.back()) {}
  /// Of one image.
  size_t num_values() const { return static_cast<size_t>(height * width * channels); }

  int64_t count;
  int64_t height;
  int64_t width;
  int64_t channels;
};

/// Calls `call` with the type of the values of images: `call.template operator()<T>()`.
template <typename Call>
void visit_image_dtype(DType dtype, Call&& call) {
  visit_dtype(dtype, [&]<typename T>() {
    if constexpr (std::is_arithmetic_v<T> && sizeof(T) <= 4) call.template operator()<T>();
  });
}

/// `shape`, of rank 3 or 4, with other sides.
[[nodiscard]] Shape with_sides(Shape shape, int64_t height, int64_t width);

/// The column of a feature that holds images. Throws `kInvalidArgument` naming `method`, which asks.
[[nodiscard]] size_t image_column(const Schema& input, const std::string& feature, std::string_view method);
/// Throws `kInvalidArgument` naming `method` and `side`, unless that is from 1 to `kMostImageSide`.
void check_image_side(std::string_view method, std::string_view side, int64_t pixels);

/// Makes an error of an element: `METHOD: 'FEATURE' has shape SHAPE, and WHY`.
void refuse_element(Block& block, size_t element, size_t column, std::string_view method, std::string_view why);
/// Whether an element has images to be changed. It has none where it is an error, and where it is a batch of [height,
/// width], which is made one.
[[nodiscard]] bool has_images(Block& block, size_t element, size_t column, std::string_view method);

/// One element for each of `shapes`, values not initialised. An empty shape stands for an error's.
[[nodiscard]] Column column_of_shapes(BufferPool& pool, const FeatureSpec& feature, std::span<const Shape> shapes);
/// Whether there are more values than an element may have (`kMostElementValues`).
[[nodiscard]] bool has_too_many_values(const Shape& shape);

}  // namespace millrace
