#include "millrace/ops/row_number.h"

#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/pipeline/dataset.h"

namespace millrace::row_number_test {
namespace {

constexpr int64_t kLength = 64;
const MaskTokensOptions kMask{.vocab_size = 1000, .mask_token = 4, .probability = 0.5, .attention_mask = ""};

// Elements 0, 1, 2, … with the tokens 100, 101, …, of this shape.
Dataset tokens(int64_t elements, const Shape& shape) {
  return Dataset::range(0, elements, 1, "number")
      .map(RowFunction{.name = "tokens",
                       .writes = {{.name = "input_ids", .dtype = DType::kInt64, .shape = shape}},
                       .function =
                           [shape](const RowView&, RowWriter& out) {
                             const std::span<int64_t> ids = out.make<int64_t>("input_ids", shape);
                             for (size_t i = 0; i < ids.size(); ++i) {
                               ids[i] = 100 + static_cast<int64_t>(i) % kLength;
                             }
                           },
                       .keep_others = false});
}

// The labels of all rows, in order.
std::vector<std::vector<int64_t>> labels(const Dataset& dataset) {
  std::vector<std::vector<int64_t>> rows;
  Pipeline pipeline = dataset.start();
  while (const auto element = pipeline.next()) {
    const std::span<const int64_t> values = element->values<int64_t>("labels");
    const auto length = static_cast<size_t>(element->shape("labels").back());
    for (size_t i = 0; i < values.size(); i += length) {
      rows.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(i),
                        values.begin() + static_cast<std::ptrdiff_t>(i + length));
    }
  }
  return rows;
}

TEST(RowNumber, IsTheOrdinalBehindBatchAndFarFromAllInOtherMatrices) {
  Block block;
  block.first_row = 30;
  EXPECT_EQ(row_number(block, 2, 0), 32u);
  EXPECT_EQ(row_number(block, 2, 3), 32u + (uint64_t{3} << 40));
  block.rows_per_element = 4;
  EXPECT_EQ(row_number(block, 2, 3), 41u);
  EXPECT_EQ(row_number(block, 2, 6), 40u + (uint64_t{1} << 40));
}

TEST(RowNumber, EveryRowOfMatricesThatAreNoBatchesDrawsItsOwn) {
  const Dataset matrices = tokens(60, {4, kLength});
  MaskTokensOptions words = kMask;
  words.starts_word.assign(1000, true);
  for (const Dataset& dataset : {matrices.mask_tokens(kMask), matrices.mask_tokens(words),
                                 matrices.corrupt_spans({.vocab_size = 1000, .noise_density = 0.5})}) {
    const std::vector<std::vector<int64_t>> rows = labels(dataset);
    ASSERT_EQ(rows.size(), 240u);
    EXPECT_EQ(std::set(rows.begin(), rows.end()).size(), 240u);
  }
  // One in each: as if it were no matrix.
  EXPECT_EQ(labels(tokens(60, {1, kLength}).mask_tokens(kMask)), labels(tokens(60, {kLength}).mask_tokens(kMask)));
}

TEST(RowNumber, BatchesBehindZipCountTheirRowsWhereverTheyStand) {
  const Dataset rows = tokens(50, {kLength});
  const std::vector<std::vector<int64_t>> expected = labels(rows.mask_tokens(kMask));
  const Dataset numbers = Dataset::range(0, 100, 1, "side");
  EXPECT_EQ(labels(Dataset::zip({rows.batch(8), numbers}).mask_tokens(kMask)), expected);
  EXPECT_EQ(labels(Dataset::zip({numbers, rows.batch(8)}).mask_tokens(kMask)), expected);
  EXPECT_EQ(labels(Dataset::zip({numbers.batch(3), rows.batch(8)}).mask_tokens(kMask)), expected);
  Pipeline pipeline = Dataset::zip({numbers, rows.batch(8)}).start();
  for (const int64_t size : {8, 8, 8, 8, 8, 8, 2}) EXPECT_EQ(pipeline.next()->num_rows(), size);
}

}  // namespace
}  // namespace millrace::row_number_test
