#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/formats/columnar/row_codec.h"
#include "millrace/formats/error.h"

namespace millrace::ragged_column_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// [[1,2],[3],[]]  []  [[4],[5,6,7]]
class RaggedColumn : public testing::Test {
 protected:
  RaggedColumn() {
    ColumnBuilder builder(pool_, feature_);
    append(builder, {1, 2, 3}, {3, 0, 2, 3, 3});
    append(builder, {}, {0, 0});
    append(builder, {4, 5, 6, 7}, {2, 0, 1, 4});
    column_ = builder.finish();
  }
  static void append(ColumnBuilder& builder, const std::vector<int64_t>& values, const std::vector<int64_t>& sizes) {
    builder.append(std::span<const int64_t>(values), sizes);
  }
  std::vector<std::vector<int64_t>> rows_of(const Column& column, size_t element) {
    const Column rows = column.ungrouped(element, 1, pool_);
    std::vector<std::vector<int64_t>> values;
    for (size_t row = 0; row < rows.num_elements(); ++row) {
      values.emplace_back(rows.values<int64_t>(row).begin(), rows.values<int64_t>(row).end());
    }
    return values;
  }

  const FeatureSpec feature_{"t", DType::kInt64, {kVaries, kRagged}};
  BufferPool pool_;
  Column column_;
};

using Rows = std::vector<std::vector<int64_t>>;

TEST_F(RaggedColumn, SaysWhereTheRowsOfAnElementBegin) {
  EXPECT_EQ(column_.shape(0), (Shape{3, kRagged}));
  EXPECT_EQ(to_string(column_.shape(0)), "[3,ragged]");
  EXPECT_EQ(column_.size(2, 0), 2);
  EXPECT_THAT(column_.row_splits(0), ElementsAre(0, 2, 3, 3));
  EXPECT_THAT(column_.row_splits(1), ElementsAre(0));
  EXPECT_THAT(column_.row_splits(2), ElementsAre(0, 1, 4));
  EXPECT_THAT(column_.values<int64_t>(2), ElementsAre(4, 5, 6, 7));
  EXPECT_THROW((void)column_.row_splits(0, 0), ErrorException);
}

TEST_F(RaggedColumn, IsSlicedGatheredAndCutOffLikeAnyOther) {
  const Column last = column_.slice(1, 2);
  EXPECT_EQ(rows_of(last, 0), Rows{});
  EXPECT_EQ(rows_of(last, 1), (Rows{{4}, {5, 6, 7}}));

  ColumnBuilder builder(pool_, feature_);
  builder.append(last, 0, 2);
  builder.append(column_, 0);
  builder.append_nothing();
  builder.append(column_, 2);
  builder.truncate(4);
  builder.append(last, 1);
  const Column gathered = builder.finish();
  ASSERT_EQ(gathered.num_elements(), 5u);
  EXPECT_EQ(rows_of(gathered, 1), (Rows{{4}, {5, 6, 7}}));
  EXPECT_EQ(rows_of(gathered, 2), (Rows{{1, 2}, {3}, {}}));
  EXPECT_THAT(rows_of(gathered, 3), IsEmpty());
  EXPECT_EQ(rows_of(gathered, 4), (Rows{{4}, {5, 6, 7}}));

  builder.append(gathered, 0, 5);
  builder.mark();
  const Column first = builder.split(3);
  EXPECT_EQ(rows_of(first, 2), (Rows{{1, 2}, {3}, {}}));
  EXPECT_EQ(rows_of(builder.finish(), 1), (Rows{{4}, {5, 6, 7}}));
}

TEST_F(RaggedColumn, HasAColumnOfOtherValuesLikeIt) {
  const Column part = column_.slice(1, 2);
  Column like = Column::like(pool_, DType::kInt32, part);
  for (size_t i = 0; i < 4; ++i) like.mutable_values<int32_t>()[i] = static_cast<int32_t>(i);
  EXPECT_THAT(like.row_splits(1), ElementsAre(0, 1, 4));
  EXPECT_THAT(like.values<int32_t>(1), ElementsAre(0, 1, 2, 3));
}

TEST_F(RaggedColumn, GroupsOfVectorsAndOfRaggedElementsComeApartAgain) {
  ColumnBuilder vectors(pool_, {"t", DType::kInt64, {kVaries}});
  for (const std::vector<int64_t>& row : Rows{{1, 2}, {3}, {}, {4, 5}, {6}, {7}, {8, 9, 10}, {}}) {
    const auto length = static_cast<int64_t>(row.size());
    vectors.append(std::span<const int64_t>(row), {&length, 1});
  }
  const Column pairs = vectors.finish().slice(2, 6).grouped_ragged(2, {2, kRagged}, pool_);
  ASSERT_EQ(pairs.num_elements(), 3u);
  EXPECT_EQ(rows_of(pairs, 0), (Rows{{}, {4, 5}}));
  EXPECT_EQ(rows_of(pairs, 2), (Rows{{8, 9, 10}, {}}));

  const Column all = pairs.grouped_ragged(3, {3, 2, kRagged}, pool_);
  ASSERT_EQ(all.num_elements(), 1u);
  EXPECT_EQ(all.shape(0), (Shape{3, 2, kRagged}));
  EXPECT_EQ(all.size(0, 1), 2);
  EXPECT_THAT(all.row_splits(0, 2), ElementsAre(0, 0, 2, 3, 4, 7, 7));
  const Column again = all.ungrouped(0, 1, pool_);
  EXPECT_EQ(rows_of(again, 0), (Rows{{}, {4, 5}}));
  EXPECT_EQ(rows_of(again, 1), (Rows{{6}, {7}}));
  EXPECT_EQ(rows_of(again, 2), (Rows{{8, 9, 10}, {}}));

  // Ragged in two dimensions, as the elements have different numbers of rows.
  const Column deep = column_.grouped_ragged(3, {3, kRagged, kRagged}, pool_);
  EXPECT_EQ(deep.shape(0), (Shape{3, kRagged, kRagged}));
  EXPECT_THAT(deep.row_splits(0), ElementsAre(0, 3, 3, 5));
  EXPECT_THAT(deep.row_splits(0, 2), ElementsAre(0, 2, 3, 3, 4, 7));
  const Column apart = deep.ungrouped(0, 1, pool_);
  for (size_t e = 0; e < 3; ++e) EXPECT_EQ(rows_of(apart, e), rows_of(column_, e));
}

TEST_F(RaggedColumn, RowsOfMatricesKeepTheirInnerDimension) {
  ColumnBuilder matrices(pool_, {"t", DType::kInt64, {kVaries, 2}});
  for (const int64_t rows : {1, 0, 3}) {
    const std::vector<int64_t> shape{rows, 2};
    for (auto& value : matrices.append_space<int64_t>(shape)) value = rows;
  }
  const Column ragged = matrices.finish().grouped_ragged(3, {kVaries, kRagged, 2}, pool_);
  EXPECT_EQ(ragged.shape(0), (Shape{3, kRagged, 2}));
  EXPECT_EQ(ragged.size(0, 2), 2);
  EXPECT_THAT(ragged.row_splits(0), ElementsAre(0, 1, 1, 4));
  const Column rows = ragged.ungrouped(0, 1, pool_);
  EXPECT_EQ(rows.shape(1), (Shape{0, 2}));
  EXPECT_EQ(rows.shape(2), (Shape{3, 2}));
  EXPECT_EQ(rows.num_values(2), 6);
}

TEST_F(RaggedColumn, MatricesOfUnlikeShapesBecomeRaggedInBothDimensions) {
  ColumnBuilder matrices(pool_, {"t", DType::kInt64, {kVaries, kVaries}});
  for (const Shape& shape : {Shape{2, 1}, Shape{1, 3}}) {
    for (auto& value : matrices.append_space<int64_t>(shape)) value = shape[1];
  }
  const Column ragged = matrices.finish().grouped_ragged(2, {2, kRagged, kRagged}, pool_);
  EXPECT_THAT(ragged.row_splits(0), ElementsAre(0, 2, 3));
  EXPECT_THAT(ragged.row_splits(0, 2), ElementsAre(0, 1, 2, 5));
}

TEST_F(RaggedColumn, UngroupsDenseElementsWithoutCopies) {
  Column fixed = Column::fixed(pool_, DType::kInt64, {2, 3}, 4);
  const Column rows = fixed.ungrouped(1, 2, pool_);
  EXPECT_EQ(rows.num_elements(), 4u);
  EXPECT_EQ(rows.fixed_shape(), Shape{3});
  EXPECT_EQ(rows.data(0), fixed.data(1));
  EXPECT_EQ(fixed.ungrouped(0, 0, pool_).num_elements(), 0u);

  // A row of no values is a row: [2,0] is two of them.
  ColumnBuilder empty(pool_, {"t", DType::kInt64, {kVaries, kVaries}});
  for (const Shape& shape : {Shape{2, 0}, Shape{0, 5}, Shape{1, 2}}) (void)empty.append_space<int64_t>(shape);
  const Column apart = empty.finish().ungrouped(0, 3, pool_);
  ASSERT_EQ(apart.num_elements(), 3u);
  EXPECT_EQ(apart.shape(1), Shape{0});
  EXPECT_EQ(apart.shape(2), Shape{2});
}

TEST_F(RaggedColumn, ElementsGoThroughTheRowCodec) {
  const auto schema = std::make_shared<const Schema>(std::vector<FeatureSpec>{
      feature_, {"name", DType::kBytes, {kVaries, kRagged}}, {"v", DType::kInt64, {kVaries, kVaries}}});
  BlockBuilder builder(schema, pool_);
  ColumnBuilder& names = builder.column(1);
  ColumnBuilder& matrices = builder.column(2);
  for (size_t e = 0; e < 3; ++e) {
    builder.column(0).append(column_, e);
    const std::vector<std::string_view> words(e, "word");
    const std::vector<int64_t> sizes{1, 0, static_cast<int64_t>(e)};
    names.append(std::span<const std::string_view>(words), sizes);
    const Shape shape{static_cast<int64_t>(e), 2};
    for (auto& value : matrices.append_space<int64_t>(shape)) value = static_cast<int64_t>(e);
    builder.added_elements(1);
  }
  const Block block = builder.finish();
  const RowCodec codec(schema);
  std::vector<std::vector<std::byte>> rows;
  for (size_t e = 0; e < 3; ++e) {
    rows.emplace_back(codec.encoded_size(block, e));
    codec.encode(block, e, rows.back().data());
    codec.decode(rows.back(), builder);
  }
  const Block decoded = builder.finish();
  for (size_t e = 0; e < 3; ++e) {
    EXPECT_EQ(rows_of(decoded.column(0), e), rows_of(column_, e));
    EXPECT_EQ(decoded.column(1).values<std::string_view>(e).size(), e);
    EXPECT_EQ(decoded.column(2).shape(e), (Shape{static_cast<int64_t>(e), 2}));
  }
  EXPECT_EQ(decoded.column(1).values<std::string_view>(2)[1], "word");
}

}  // namespace
}  // namespace millrace::ragged_column_test
