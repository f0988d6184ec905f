// augment_images of memory that nobody else sees, which it writes again, and of memory that somebody sees.
#include <span>

#include <gtest/gtest.h>

#include "millrace/formats/columnar/column_builder.h"
#include "millrace/formats/random/counter_rng.h"
#include "millrace/ops/images/augment_images.h"

namespace millrace::augment_images_in_place_test {
namespace {

// Elements of these shapes with numbers from 0 on.
Column numbered(BufferPool& pool, DType dtype, const Shape& feature_shape, const std::vector<Shape>& shapes) {
  ColumnBuilder builder(pool, {"x", dtype, feature_shape});
  int next = 0;
  for (const Shape& shape : shapes) {
    visit_dtype(dtype, [&]<typename T>() {
      if constexpr (std::is_arithmetic_v<T>) {
        for (T& value : builder.append_space<T>(shape)) value = static_cast<T>(next++);
      }
    });
  }
  return builder.finish();
}

template <typename T>
std::vector<T> values_of(const Column& column) {
  std::vector<T> all;
  for (size_t i = 0; i < column.num_elements(); ++i) {
    const std::span<const T> values = column.values<T>(i);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

const void* memory_of(const Block& block, size_t column) { return block.column(column).values<float>(0).data(); }

// What an image of [height,width,channels] becomes, by the definition of flips.
template <typename T>
std::vector<T> flipped(std::span<const T> image, std::span<const int64_t> shape, bool left_right, bool up_down) {
  std::vector<T> result;
  for (int64_t y = 0; y < shape[0]; ++y) {
    for (int64_t x = 0; x < shape[1]; ++x) {
      const int64_t from_y = up_down ? shape[0] - 1 - y : y;
      const int64_t from_x = left_right ? shape[1] - 1 - x : x;
      const auto pixel = static_cast<size_t>((from_y * shape[1] + from_x) * shape[2]);
      for (size_t c = 0; c < static_cast<size_t>(shape[2]); ++c) result.push_back(image[pixel + c]);
    }
  }
  return result;
}

// Flips images of their own memory, of which each element has `rows`: they become what the definition says, and stay
// where they are.
template <typename T>
void expect_flipped_in_place(const Shape& feature_shape, const std::vector<Shape>& shapes, size_t rows = 1) {
  BufferPool pool;
  const DType dtype = DTypeOf<T>::value;
  const auto schema = std::make_shared<const Schema>(std::vector<FeatureSpec>{{"x", dtype, feature_shape}});
  Block own(schema, {numbered(pool, dtype, feature_shape, shapes)}, shapes.size());
  own.rows_per_element = static_cast<int64_t>(rows);
  const std::vector<T> before = values_of<T>(own.column(0));
  const T* const memory = own.column(0).values<T>(0).data();
  const AugmentImagesOperator op(schema, {.features = {"x"}, .flip_left_right = true, .flip_up_down = true});
  const Block changed = op.apply(std::move(own), pool);
  ASSERT_TRUE(changed.errors().empty());
  EXPECT_EQ(changed.column(0).values<T>(0).data(), memory);
  const CounterRng rng(0, operator_id("augment_images"));
  std::vector<T> expected;
  for (size_t i = 0; i < shapes.size() * rows; ++i) {
    const Shape& shape = shapes[i / rows];
    const uint32_t word = rng.words(i)[1];
    const std::vector<T> image =
        flipped(std::span(before).subspan(expected.size()),
                std::span<const int64_t>(shape.data(), shape.size()).last(3), (word >> 31) != 0, (word >> 30 & 1) != 0);
    expected.insert(expected.end(), image.begin(), image.end());
  }
  EXPECT_EQ(values_of<T>(changed.column(0)), expected);
}

TEST(AugmentImagesInPlace, FlipsWidthsAndChannelsOfAnyNumber) {
  for (const Shape& shape : {Shape{2, 1, 3}, Shape{3, 7, 3}, Shape{2, 8, 3}, Shape{5, 9, 1}, Shape{4, 5, 4}}) {
    expect_flipped_in_place<float>(shape, std::vector<Shape>(16, shape));
  }
}

TEST(AugmentImagesInPlace, FlipsBytesAndWholeNumbers) {
  expect_flipped_in_place<uint8_t>({2, 5, 3}, std::vector<Shape>(8, {2, 5, 3}));
  expect_flipped_in_place<int32_t>({3, 5, 2}, std::vector<Shape>(16, {3, 5, 2}));
}

TEST(AugmentImagesInPlace, FlipsEachImageOfABatch) {
  expect_flipped_in_place<float>({4, 3, 5, 3}, std::vector<Shape>(6, {4, 3, 5, 3}), 4);
}

TEST(AugmentImagesInPlace, FlipsImagesOfUnlikeSizes) {
  expect_flipped_in_place<float>(
      {kVaries, kVaries, 3}, {{2, 5, 3}, {1, 1, 3}, {4, 3, 3}, {3, 8, 3}, {7, 2, 3}, {2, 2, 3}, {5, 5, 3}, {1, 6, 3}});
}

class AugmentTwoColumns : public ::testing::Test {
 protected:
  Column column() { return numbered(pool_, DType::kFloat32, {4, 4, 3}, std::vector<Shape>(kCount, {4, 4, 3})); }
  Block block(Column first, Column second) { return {schema_, {std::move(first), std::move(second)}, kCount}; }
  static AugmentImagesOptions options() {
    return {.features = {"a", "b"}, .flip_left_right = true, .flip_up_down = true, .brightness = 0.5};
  }
  // As it comes from memory that somebody sees.
  std::vector<float> expected(const AugmentImagesOperator& op) {
    const Block shared = block(column(), column());
    return values_of<float>(op.apply(shared, pool_).column(0));
  }

  static constexpr size_t kCount = 8;
  BufferPool pool_;
  const SchemaPtr schema_ = std::make_shared<const Schema>(
      std::vector<FeatureSpec>{{"a", DType::kFloat32, {4, 4, 3}}, {"b", DType::kFloat32, {4, 4, 3}}});
};

TEST_F(AugmentTwoColumns, AreWrittenWhereBothAreTheirOwn) {
  const AugmentImagesOperator op(schema_, options());
  Block own = block(column(), column());
  const void* const memory[] = {memory_of(own, 0), memory_of(own, 1)};
  const Block changed = op.apply(std::move(own), pool_);
  for (size_t c = 0; c < 2; ++c) {
    EXPECT_EQ(memory_of(changed, c), memory[c]);
    EXPECT_EQ(values_of<float>(changed.column(c)), expected(op));
  }
}

// Each would be flipped twice.
TEST_F(AugmentTwoColumns, ThatAreOneBufferAreNotWritten) {
  const AugmentImagesOperator op(schema_, options());
  Column both = column();
  Column copy = both;
  Block shared = block(std::move(both), std::move(copy));
  const void* const memory = memory_of(shared, 0);
  ASSERT_EQ(memory_of(shared, 1), memory);
  const Block changed = op.apply(std::move(shared), pool_);
  for (size_t c = 0; c < 2; ++c) {
    EXPECT_NE(memory_of(changed, c), memory);
    EXPECT_EQ(values_of<float>(changed.column(c)), expected(op));
  }
}

TEST_F(AugmentTwoColumns, OfWhichSomebodySeesOneAreNotWritten) {
  const AugmentImagesOperator op(schema_, options());
  const std::vector<float> before = values_of<float>(column());
  for (size_t seen = 0; seen < 2; ++seen) {
    const Column shared = column();
    const Block changed = op.apply(seen == 0 ? block(shared, column()) : block(column(), shared), pool_);
    for (size_t c = 0; c < 2; ++c) EXPECT_EQ(values_of<float>(changed.column(c)), expected(op));
    EXPECT_EQ(values_of<float>(shared), before);
  }
}

TEST_F(AugmentTwoColumns, AreTurnedElsewhere) {
  AugmentImagesOptions turning = options();
  turning.rotate = true;
  const AugmentImagesOperator op(schema_, turning);
  Block own = block(column(), column());
  const void* const memory = memory_of(own, 0);
  const Block changed = op.apply(std::move(own), pool_);
  EXPECT_NE(memory_of(changed, 0), memory);
  for (size_t c = 0; c < 2; ++c) EXPECT_EQ(values_of<float>(changed.column(c)), expected(op));
}

}  // namespace
}  // namespace millrace::augment_images_in_place_test
