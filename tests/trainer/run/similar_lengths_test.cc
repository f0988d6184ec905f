#include "millrace/trainer/run/similar_lengths.h"

#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/random/counter_rng.h"

namespace millrace::similar_lengths_test {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr int32_t kPad = 3;

// 400 rows of two texts of drawn lengths, padded to 96 and 70, whose ids are the row's number; and three labels.
Dataset padded_rows() {
  std::vector<std::vector<int32_t>> ids[2];
  std::vector<std::vector<int64_t>> masks[2];
  std::vector<std::vector<float>> labels;
  const CounterRng rng(1, 2);
  for (int32_t row = 0; row < 400; ++row) {
    for (const size_t text : {0, 1}) {
      const size_t limit = text == 0 ? 96 : 70;
      const size_t length =
          1 + uniform_below(rng.words(static_cast<uint64_t>(row), text)[0], static_cast<uint32_t>(limit));
      ids[text].emplace_back(length, row + 10).resize(limit, kPad);
      masks[text].emplace_back(length, 1).resize(limit);
    }
    labels.push_back({static_cast<float>(row), 0.5F, 1});
  }
  return Dataset::rows({{"a", ids[0], {}},
                        {"a_mask", masks[0], {}},
                        {"b", ids[1], {}},
                        {"b_mask", masks[1], {}},
                        {"labels", labels, {}}});
}

SimilarLengths lengths(int64_t max_shapes) {
  return {{{.ids = "a", .mask = "a_mask", .limit = 96}, {.ids = "b", .mask = "b_mask", .limit = 70}}, kPad, max_shapes};
}

TEST(SimilarLengths, CutTheLimitsIntoEvenPartsThatAllowNoMoreShapes) {
  EXPECT_THAT(lengths(9).multiples(), ElementsAre(32, 24));
  EXPECT_THAT(lengths(8).multiples(), ElementsAre(48, 35));  // 2 by 2
  EXPECT_THAT(lengths(3).multiples(), ElementsAre(96, 70));
  EXPECT_THAT(lengths(1).multiples(), ElementsAre(96, 70));
  EXPECT_THAT(SimilarLengths({{.limit = 416}, {.limit = 480}}, 0, 16).multiples(), ElementsAre(104, 120));
  EXPECT_THAT(SimilarLengths({{.limit = 48}, {.limit = 40}, {.limit = 7}}, 0, 16).multiples(), ElementsAre(24, 20, 7));
}

TEST(SimilarLengths, BatchesHaveNoMoreShapesAndAllTheRowsWithTheirPadding) {
  const SimilarLengths similar = lengths(9);
  Pipeline pipeline = similar.batches(similar.without_padding(padded_rows()), 8).start({.threads = 2});
  std::set<std::pair<int64_t, int64_t>> shapes;
  std::set<int32_t> rows;
  while (const std::optional<Batch> batch = pipeline.next()) {
    const Shape a = batch->shape("a");
    const Shape b = batch->shape("b");
    EXPECT_EQ(a[1] % 32, 0);
    EXPECT_EQ(b[1] % 24, 0);
    EXPECT_LE(a[1], 96);
    EXPECT_LE(b[1], 72);
    EXPECT_EQ(batch->shape("labels")[1], 3);
    shapes.emplace(a[1], b[1]);
    int64_t longest = 0;
    int64_t shortest = 96;
    for (int64_t row = 0; row < a[0]; ++row) {
      int64_t length = 0;
      for (const auto& [ids, width] : {std::pair("a", a[1]), std::pair("b", b[1])}) {
        const auto at = static_cast<size_t>(row * width);
        const auto values = batch->values<int32_t>(ids).subspan(at, static_cast<size_t>(width));
        const auto mask = batch->values<int64_t>(std::string(ids) + "_mask").subspan(at, static_cast<size_t>(width));
        int64_t tokens = 0;
        for (size_t i = 0; i < values.size(); ++i) {
          tokens += mask[i];
          EXPECT_EQ(values[i] == kPad, mask[i] == 0);
        }
        EXPECT_GT(tokens, 0);
        length = std::max(length, tokens);
      }
      const auto number = static_cast<int32_t>(batch->values<float>("labels")[static_cast<size_t>(row) * 3]);
      EXPECT_EQ(batch->values<int32_t>("a")[static_cast<size_t>(row * a[1])], number + 10);
      rows.insert(number);
      longest = std::max(longest, length);
      shortest = std::min(shortest, length);
    }
    EXPECT_EQ((longest - 1) / 32, (shortest - 1) / 32);  // of one bucket
  }
  EXPECT_EQ(rows.size(), 400U);
  EXPECT_LE(shapes.size(), 9U);
  EXPECT_GT(shapes.size(), 3U);
}

TEST(SimilarLengths, KeepsTheOrderWhereItIsAskedFor) {
  const SimilarLengths similar = lengths(9);
  Pipeline pipeline = similar.batches_in_order(similar.without_padding(padded_rows()), 64).start({.threads = 2});
  float next = 0;
  std::vector<int64_t> sizes;
  while (const std::optional<Batch> batch = pipeline.next()) {
    sizes.push_back(batch->num_rows());
    for (size_t row = 0; row < static_cast<size_t>(batch->num_rows()); ++row) {
      EXPECT_EQ(batch->values<float>("labels")[3 * row], next++);
    }
  }
  EXPECT_THAT(sizes, ElementsAre(64, 64, 64, 64, 64, 64, 16));
}

TEST(SimilarLengths, NeedsTexts) {
  EXPECT_THROW(SimilarLengths({}, kPad, 4), ErrorException);
  EXPECT_THROW(SimilarLengths({{"ids", "mask", 0}}, kPad, 4), ErrorException);
}

}  // namespace
}  // namespace millrace::similar_lengths_test
