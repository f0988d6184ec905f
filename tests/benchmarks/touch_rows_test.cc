#include "benchmarks/touch_rows.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

namespace millrace::touch_rows_test {
namespace {

Block batch_of(DType dtype, Column column, int64_t rows) {
  Block block(
      std::make_shared<const Schema>(std::vector<FeatureSpec>{{.name = "x", .dtype = dtype, .shape = column.shape(0)}}),
      {std::move(column)}, 1);
  block.rows_per_element = rows;
  return block;
}

TEST(TouchRows, ReadsThePayloadOfEachRowOfBytes) {
  BufferPool pool;
  std::array<std::string, 3> payloads = {"abc", "", "xyz"};
  Column column = Column::fixed(pool, DType::kBytes, {3}, 1);
  for (size_t row = 0; row < 3; ++row) column.mutable_values<std::string_view>()[row] = payloads[row];
  const Block batch = batch_of(DType::kBytes, std::move(column), 3);
  EXPECT_EQ(touch_rows(batch), uint64_t{'a'} + 'x');
  payloads[2][0] = 'y';
  EXPECT_EQ(touch_rows(batch), uint64_t{'a'} + 'y');
}

TEST(TouchRows, ReadsOneByteOfEachRowOfNumbers) {
  BufferPool pool;
  Column column = Column::fixed(pool, DType::kInt32, {2, 4}, 1);
  for (int32_t i = 0; i < 8; ++i) column.mutable_values<int32_t>()[static_cast<size_t>(i)] = 1 + i;
  EXPECT_EQ(touch_rows(batch_of(DType::kInt32, std::move(column), 2)), 1U + 5U);
}

}  // namespace
}  // namespace millrace::touch_rows_test
