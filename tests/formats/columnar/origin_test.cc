#include "millrace/formats/columnar/origin.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "millrace/formats/columnar/block_builder.h"

namespace millrace::origin_test {
namespace {

SchemaPtr number_schema() {
  return std::make_shared<const Schema>(std::vector<FeatureSpec>{{.name = "x", .dtype = DType::kInt64, .shape = {}}});
}

// Elements x = first, first + 1, …; row r of element x is record 10 x + r of `shard`, at offset 100 x + r.
Block numbered(BufferPool& pool, const std::shared_ptr<ShardNames>& names, const std::string& shard, int64_t first,
               size_t count, int64_t rows = 1) {
  BlockBuilder builder(number_schema(), pool);
  for (int64_t x = first; x < first + static_cast<int64_t>(count); ++x) {
    builder.column(0).append<int64_t>({&x, 1}, {});
    builder.added_elements(1);
  }
  Block block = builder.finish();
  block.rows_per_element = rows;
  if (names != nullptr) {
    const uint32_t number = names->add(shard);
    Origins origins(pool, names, count * static_cast<size_t>(rows));
    for (size_t i = 0; i < origins.size(); ++i) {
      const auto x = static_cast<uint64_t>(first) + i / static_cast<uint64_t>(rows);
      const uint64_t r = i % static_cast<uint64_t>(rows);
      origins.mutable_data()[i] = Origin(number, 100 * x + r, 10 * x + r);
    }
    block.set_origins(std::move(origins));
  }
  return block;
}

// `shard@offset#record` of each row, or `?`.
std::vector<std::string> places(const Block& block) {
  std::vector<std::string> places;
  for (size_t element = 0; element < block.num_elements(); ++element) {
    for (int64_t row = 0; row < block.rows_per_element; ++row) {
      Error error;
      block.locate(element, static_cast<size_t>(row), error);
      places.push_back(error.shard.empty() ? "?" : fmt::format("{}@{}#{}", error.shard, error.offset, error.record));
    }
  }
  return places;
}

using Places = std::vector<std::string>;

TEST(OriginTest, HoldsAShardAndARecordUpToTheirLimits) {
  const Origin origin((1U << 24) - 2, UINT64_MAX, (uint64_t{1} << 40) - 1);
  ASSERT_TRUE(origin.is_known());
  EXPECT_EQ(origin.shard(), (1U << 24) - 2);
  EXPECT_EQ(origin.offset(), UINT64_MAX);
  EXPECT_EQ(origin.record(), (uint64_t{1} << 40) - 1);
  EXPECT_TRUE(Origin(0, 0, 0).is_known());
  EXPECT_FALSE(Origin().is_known());
  EXPECT_FALSE(Origin((1U << 24) - 1, 0, 0).is_known());
  EXPECT_FALSE(Origin(0, 0, uint64_t{1} << 40).is_known());
}

TEST(OriginTest, AShardKeepsItsNumber) {
  ShardNames names;
  EXPECT_EQ(names.add("a"), 0U);
  EXPECT_EQ(names.add("b"), 1U);
  EXPECT_EQ(names.add("a"), 0U);
  EXPECT_EQ(names.name(1), "b");
}

TEST(OriginTest, GoWithElementsThatAreGatheredCutAndChosen) {
  BufferPool pool;
  const auto names = std::make_shared<ShardNames>();
  const Block a = numbered(pool, names, "a", 0, 4);
  const Block b = numbered(pool, names, "b", 5, 3);
  BlockBuilder builder(number_schema(), pool);
  builder.append(b, 2);
  builder.append_range(a, 1, 3);
  builder.append(b, 0);
  const Block gathered = builder.finish();
  const Places expected = {"b@700#70", "a@100#10", "a@200#20", "a@300#30", "b@500#50"};
  EXPECT_EQ(places(gathered), expected);
  EXPECT_EQ(places(gathered.slice(1, 3)), Places(expected.begin() + 1, expected.begin() + 4));
  EXPECT_EQ(places(gathered.slice(1, 3).slice(2, 1)), Places({"a@300#30"}));
  const std::vector<size_t> chosen = {0, 3, 4};
  EXPECT_EQ(places(gathered.select(chosen, pool)), Places({"b@700#70", "a@300#30", "b@500#50"}));
  EXPECT_EQ(places(gathered.with_columns(gathered.schema(), gathered.columns())), expected);
}

TEST(OriginTest, ElementsWithoutOneStandBesideOthers) {
  BufferPool pool;
  const auto names = std::make_shared<ShardNames>();
  const Block a = numbered(pool, names, "a", 0, 2);
  const Block none = numbered(pool, nullptr, "", 0, 2);
  const auto error = std::make_shared<const Error>(Error{.code = ErrorCode::kParse, .message = "own"});
  BlockBuilder builder(number_schema(), pool);
  builder.append_range(none, 0, 2);
  builder.append_error(error);
  builder.append_range(a, 0, 2);
  builder.append_error(error);
  builder.append(a, 1);
  builder.append(none, 0);
  EXPECT_EQ(places(builder.finish()), Places({"?", "?", "?", "a@0#0", "a@100#10", "?", "a@100#10", "?"}));
  builder.append_range(none, 0, 2);
  EXPECT_TRUE(builder.finish().origins().empty());
}

TEST(OriginTest, StayWithTheRestThatIsSplitOffAndAreForgottenWhenTruncated) {
  BufferPool pool;
  const auto names = std::make_shared<ShardNames>();
  const Block a = numbered(pool, names, "a", 0, 6);
  BlockBuilder builder(number_schema(), pool);
  builder.append_range(a, 0, 6);
  builder.truncate(5);
  EXPECT_EQ(places(builder.split(2)), Places({"a@0#0", "a@100#10"}));
  builder.append(a, 0);
  EXPECT_EQ(places(builder.split(4)), Places({"a@200#20", "a@300#30", "a@400#40", "a@0#0"}));
  EXPECT_TRUE(builder.empty());
  builder.append(a, 5);
  builder.append(a, 4);
  builder.truncate(1);
  builder.append(a, 3);
  EXPECT_EQ(places(builder.finish()), Places({"a@500#50", "a@300#30"}));
}

TEST(OriginTest, AnElementOfManyRowsHasOneForEach) {
  BufferPool pool;
  const auto names = std::make_shared<ShardNames>();
  const Block pairs = numbered(pool, names, "a", 0, 3, 2);
  BlockBuilder builder(number_schema(), pool);
  builder.append_range(pairs, 1, 2);
  builder.append(pairs, 0);
  Block gathered = builder.finish();
  gathered.rows_per_element = 2;
  EXPECT_EQ(places(gathered), Places({"a@100#10", "a@101#11", "a@200#20", "a@201#21", "a@0#0", "a@1#1"}));
  EXPECT_EQ(places(gathered.slice(2, 1)), Places({"a@0#0", "a@1#1"}));
  // Which of its rows is to blame is not known.
  Error error;
  gathered.locate(0, error);
  EXPECT_EQ(error.shard, "");
}

TEST(OriginTest, ElementsOfAnotherNumberOfRowsLoseTheirs) {
  BufferPool pool;
  const auto names = std::make_shared<ShardNames>();
  const Block pairs = numbered(pool, names, "a", 0, 2, 2);
  const Block single = numbered(pool, names, "a", 7, 1);
  BlockBuilder builder(number_schema(), pool);
  builder.append(pairs, 0);
  builder.append(single, 0);
  builder.append(pairs, 1);
  Block gathered = builder.finish();
  gathered.rows_per_element = 2;
  EXPECT_EQ(places(gathered), Places({"a@0#0", "a@1#1", "?", "?", "a@100#10", "a@101#11"}));
}

TEST(OriginTest, OutliveTheBlocksAndThePipelineTheyComeFrom) {
  Block kept;
  {
    BufferPool pool;
    const auto names = std::make_shared<ShardNames>();
    kept = numbered(pool, names, "a", 3, 5).slice(4, 1);
  }
  EXPECT_EQ(places(kept), Places({"a@700#70"}));
}

TEST(OriginTest, AnErrorThatNamesItsPlaceKeepsIt) {
  BufferPool pool;
  const auto names = std::make_shared<ShardNames>();
  Error error{.shard = "own", .offset = 1, .record = 2};
  numbered(pool, names, "a", 0, 1).locate(0, error);
  EXPECT_EQ(error.shard, "own");
  EXPECT_EQ(error.offset, 1);
  EXPECT_EQ(error.record, 2);
}

}  // namespace
}  // namespace millrace::origin_test
