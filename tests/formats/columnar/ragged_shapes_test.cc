#include "millrace/formats/columnar/ragged_shapes.h"

#include <array>
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::ragged_shapes_test {
namespace {

using ::testing::ElementsAre;
using Sizes = std::vector<int64_t>;

BufferPool pool;

// What `append` appends to sizes that are there already, which stay.
Sizes appended(const std::function<void(CountedVector<int64_t>&)>& append) {
  CountedVector<int64_t> sizes({-7}, CountedAllocator<int64_t>(pool));
  append(sizes);
  EXPECT_EQ(sizes.front(), -7);
  return {sizes.begin() + 1, sizes.end()};
}

constexpr uint32_t kSecond = 1U << 1;
constexpr uint32_t kThird = 1U << 2;

// [[1,2],[3],[]]
const Sizes kVectors = {3, 0, 2, 3, 3};
// Two rows of one and two matrices with rows of two values: [ [[[1,2]]], [[[3,4],[5,6]], [[7,8]]] ]
const Sizes kMatrices = {2, 0, 1, 3, 0, 1, 3, 4, 2};

TEST(RaggedShapes, KnowTheDimensionsThatAreRagged) {
  EXPECT_EQ(ragged_dimensions({}), 0U);
  EXPECT_EQ(ragged_dimensions({kVaries, 3}), 0U);
  EXPECT_EQ(ragged_dimensions({kVaries, kRagged, 3}), kSecond);
  EXPECT_EQ(ragged_dimensions({2, kRagged, kRagged}), kSecond | kThird);
}

TEST(RaggedShapes, OfAnElementSayItsSizesWhereTheyAreOneForAllRows) {
  EXPECT_EQ(ragged_shape(kVectors, 2, kSecond), (Shape{3, kRagged}));
  EXPECT_EQ(ragged_shape(kMatrices, 4, kSecond | kThird), (Shape{2, kRagged, kRagged, 2}));
  EXPECT_EQ(ragged_shape(Sizes{2, 5, 0, 1, 1, 2, 2, 2, 3, 4, 4, 4, 6}, 3, kThird), (Shape{2, 5, kRagged}));
  EXPECT_EQ(ragged_shape(Sizes{0, 0}, 2, kSecond), (Shape{0, kRagged}));
}

TEST(RaggedShapes, HaveOneSplitMoreThanThereAreRowsBefore) {
  EXPECT_THAT(row_splits(kVectors, kSecond, 1), ElementsAre(0, 2, 3, 3));
  EXPECT_THAT(row_splits(kMatrices, kSecond | kThird, 1), ElementsAre(0, 1, 3));
  EXPECT_THAT(row_splits(kMatrices, kSecond | kThird, 2), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(row_splits(Sizes{2, 2, 0, 1, 1, 2, 2}, kThird, 2), ElementsAre(0, 1, 1, 2, 2));
  EXPECT_THAT(row_splits(Sizes{0, 0}, kSecond, 1), ElementsAre(0));
}

TEST(RaggedShapes, OfARowBeginAtZeroAgain) {
  EXPECT_EQ(row_dimensions(kSecond), 0U);
  EXPECT_EQ(row_dimensions(kSecond | kThird), kSecond);
  const auto of_row = [](const Sizes& element, size_t rank, uint32_t ragged, int64_t row, int64_t values) {
    return appended([&](auto& sizes) { EXPECT_EQ(append_row_sizes(element, rank, ragged, row, sizes), values); });
  };
  EXPECT_THAT(of_row(kVectors, 2, kSecond, 0, 2), ElementsAre(2));
  EXPECT_THAT(of_row(kVectors, 2, kSecond, 2, 0), ElementsAre(0));
  EXPECT_THAT(of_row(kMatrices, 4, kSecond | kThird, 0, 2), ElementsAre(1, 0, 1, 2));
  EXPECT_THAT(of_row(kMatrices, 4, kSecond | kThird, 1, 6), ElementsAre(2, 0, 2, 3, 2));
  // Where the second dimension is not ragged it stays the row's first.
  EXPECT_THAT(of_row({2, 2, 0, 1, 1, 2, 5}, 3, kThird, 1, 4), ElementsAre(2, 0, 1, 4));
}

TEST(RaggedShapes, OfAGroupOfVectorsAreTheirLengths) {
  const std::array<Sizes, 3> lengths = {{{2}, {1}, {0}}};
  const std::vector<std::span<const int64_t>> rows(lengths.begin(), lengths.end());
  EXPECT_EQ(appended([&](auto& sizes) { append_group_sizes(rows, 0, {3, kRagged}, sizes); }), kVectors);
  EXPECT_THAT(appended([&](auto& sizes) { append_group_sizes({}, 0, {0, kRagged}, sizes); }), ElementsAre(0, 0));
}

TEST(RaggedShapes, OfAGroupHaveOneSizeWhereAllRowsHaveIt) {
  const std::array<Sizes, 2> shapes = {{{3, 2}, {1, 2}}};
  const std::vector<std::span<const int64_t>> rows(shapes.begin(), shapes.end());
  const auto grouped = [&](const Shape& shape) {
    return appended([&](auto& sizes) { append_group_sizes(rows, 0, shape, sizes); });
  };
  EXPECT_THAT(grouped({2, kRagged, 2}), ElementsAre(2, 0, 3, 4, 2));
  // The second dimension may be ragged although these rows do not differ in it.
  EXPECT_THAT(grouped({2, kRagged, kRagged}), ElementsAre(2, 0, 3, 4, 0, 2, 4, 6, 8));
}

// Cutting a group gives the rows that it was made of.
TEST(RaggedShapes, OfRowsComeBackFromTheirGroup) {
  const std::array<Sizes, 3> elements = {{{1, 0, 1, 2}, {0, 0, 2}, {2, 0, 2, 3, 2}}};
  const std::vector<std::span<const int64_t>> rows(elements.begin(), elements.end());
  const Sizes group = appended([&](auto& sizes) {
    append_group_sizes(rows, kSecond, {3, kRagged, kRagged, 2}, sizes);
  });
  EXPECT_THAT(group, ElementsAre(3, 0, 1, 1, 3, 0, 1, 3, 4, 2));
  const std::array<int64_t, 3> values = {2, 0, 6};
  for (int64_t row = 0; row < 3; ++row) {
    const auto at = static_cast<size_t>(row);
    EXPECT_EQ(
        appended([&](auto& sizes) { EXPECT_EQ(append_row_sizes(group, 4, kSecond | kThird, row, sizes), values[at]); }),
        elements[at]);
  }
}

}  // namespace
}  // namespace millrace::ragged_shapes_test
