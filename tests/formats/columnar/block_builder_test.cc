#include "millrace/formats/columnar/block_builder.h"

#include <cstring>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace millrace::block_builder_test {
namespace {

std::shared_ptr<const Error> some_error(const std::string& message) {
  return std::make_shared<const Error>(Error{.code = ErrorCode::kParse, .message = message});
}

Block records(BufferPool& pool, const std::vector<std::string>& payloads) {
  BlockBuilder builder(record_schema(), pool);
  for (const std::string& payload : payloads) builder.column(0).append_view(builder.column(0).store(payload));
  builder.added_elements(payloads.size());
  return builder.finish();
}

size_t num_holds(const Column& column) {
  size_t count = 0;
  column.holds().for_each([&](const Ref<Resource>&) { ++count; });
  return count;
}

TEST(BlockBuilderTest, GathersRecordViewsAndHoldsEachBufferOnce) {
  BufferPool pool;
  Block gathered;
  {
    std::vector<Block> blocks;
    for (int b = 0; b < 16; ++b) {
      std::vector<std::string> payloads;
      for (int i = 0; i < 50; ++i) payloads.push_back("record " + std::to_string(b) + "." + std::to_string(i));
      blocks.push_back(records(pool, payloads));
    }
    BlockBuilder builder(record_schema(), pool);
    for (size_t i = 0; i < 50; ++i) {
      for (const Block& block : blocks) builder.append(block, i);
    }
    gathered = builder.finish();
    EXPECT_TRUE(builder.empty());
  }
  ASSERT_EQ(gathered.num_elements(), 800u);
  EXPECT_EQ(num_holds(gathered.column(0)), 16u);
  EXPECT_EQ(gathered.column(0).values<std::string_view>(0)[0], "record 0.0");
  EXPECT_EQ(gathered.column(0).values<std::string_view>(16 * 7 + 3)[0], "record 3.7");
  EXPECT_EQ(gathered.column(0).values<std::string_view>(799)[0], "record 15.49");
}

TEST(BlockBuilderTest, SizeOfRecordsIsThatOfAllOfThem) {
  BufferPool pool;
  std::vector<std::string> payloads;
  int64_t bytes = 0;
  for (size_t count = 0; count < 20; ++count) {
    EXPECT_EQ(records(pool, payloads).column(0).byte_size(), bytes) << count << " records";
    payloads.emplace_back(count * count + 1, 'x');
    bytes += static_cast<int64_t>(size_of(DType::kBytes) + payloads.back().size());
  }
}

TEST(BlockBuilderTest, ErrorsGoWithTheirElements) {
  BufferPool pool;
  Block block = records(pool, {"a", "b", "c", "d"});
  block.add_error(1, some_error("one"));
  block.add_error(3, some_error("three"));
  BlockBuilder builder(record_schema(), pool);
  builder.append_range(block, 0, 3);
  builder.append_error(some_error("own"));
  builder.append_range(block, 2, 2);
  builder.append(block, 0);
  const Block gathered = builder.finish();
  ASSERT_EQ(gathered.num_elements(), 7u);
  ASSERT_EQ(gathered.errors().size(), 3u);
  EXPECT_EQ(gathered.error_at(1)->message, "one");
  EXPECT_EQ(gathered.error_at(3)->message, "own");
  EXPECT_EQ(gathered.error_at(5)->message, "three");
  const auto values = gathered.column(0).values<std::string_view>();
  EXPECT_EQ(values[0], "a");
  EXPECT_EQ(values[2], "c");
  EXPECT_EQ(values[4], "c");
  EXPECT_EQ(values[6], "a");
}

TEST(BlockBuilderTest, TruncateForgetsTheLastElementsAndTheirErrors) {
  BufferPool pool;
  const Block block = records(pool, {"aaa", "bb", "c"});
  BlockBuilder builder(record_schema(), pool);
  builder.append_range(block, 0, 2);
  const int64_t bytes = builder.byte_size();
  builder.append_error(some_error("gone"));
  builder.append(block, 2);
  builder.truncate(2);
  EXPECT_EQ(builder.byte_size(), bytes);
  EXPECT_EQ(bytes, 5 + 2 * static_cast<int64_t>(sizeof(std::string_view)));
  const Block kept = builder.finish();
  EXPECT_EQ(kept.num_elements(), 2u);
  EXPECT_TRUE(kept.errors().empty());
  EXPECT_EQ(kept.byte_size(), bytes);
}

TEST(BlockBuilderTest, WhatIsSplitOffDoesNotKeepTheBuffersOfWhatStays) {
  BufferPool pool;
  BlockBuilder builder(record_schema(), pool);
  std::vector<std::string> gathered;
  for (int i = 0; i < 100; ++i) {
    const Block block = records(pool, {fmt::format("a{}", i), fmt::format("b{}", i), fmt::format("c{}", i)});
    builder.append_range(block, 0, 2);
    builder.mark();
    builder.append_range(block, 2, 1);
    if (i == 50) builder.append_error(some_error("stays"));
    const Block first = builder.split(builder.num_elements() - (i == 50 ? 2 : 1));
    for (const std::string_view value : first.column(0).values<std::string_view>()) gathered.emplace_back(value);
    EXPECT_LE(num_holds(first.column(0)), 2u);
    EXPECT_EQ(first.errors().size(), i == 51 ? 1u : 0u);
  }
  EXPECT_EQ(gathered.size(), 300u);
  EXPECT_EQ(gathered[2], "c0");
  EXPECT_EQ(gathered[3], "a1");
  EXPECT_EQ(num_holds(builder.finish().column(0)), 1u);
}

TEST(BlockBuilderTest, CopiesFixedAndVaryingShapesInRuns) {
  BufferPool pool;
  const auto schema = std::make_shared<const Schema>(
      std::vector<FeatureSpec>{{.name = "fixed", .dtype = DType::kInt32, .shape = {2}},
                               {.name = "vector", .dtype = DType::kInt64, .shape = {kVaries}},
                               {.name = "matrix", .dtype = DType::kFloat32, .shape = {kVaries, kVaries}}});
  BlockBuilder builder(schema, pool);
  for (int32_t i = 0; i < 10; ++i) {
    const std::vector<int32_t> fixed{i, -i};
    builder.column(0).append<int32_t>(fixed, std::vector<int64_t>{2});
    const std::vector<int64_t> vector(static_cast<size_t>(i), i);
    builder.column(1).append<int64_t>(vector, std::vector<int64_t>{i});
    const std::vector<int64_t> shape{2, i % 3};
    auto space = builder.column(2).append_space<float>(shape);
    std::iota(space.begin(), space.end(), static_cast<float>(i));
  }
  builder.added_elements(10);
  const Block all = builder.finish();

  // Out of a slice, in two runs with an error between.
  const Block part = all.slice(3, 6);
  builder.append_range(part, 1, 3);
  builder.append_error(some_error("between"));
  builder.append_range(part, 5, 1);
  const Block copied = builder.finish();
  ASSERT_EQ(copied.num_elements(), 5u);
  const std::vector<size_t> from{4, 5, 6, 0, 8};
  for (const size_t i : {0, 1, 2, 4}) {
    const auto number = static_cast<int32_t>(from[i]);
    EXPECT_EQ(copied.column(0).values<int32_t>(i)[1], -number);
    EXPECT_EQ(copied.column(1).shape(i), (Shape{number}));
    EXPECT_EQ(copied.column(2).shape(i), (Shape{2, number % 3}));
    for (const int64_t value : copied.column(1).values<int64_t>(i)) EXPECT_EQ(value, number);
    if (number % 3 > 0) {
      EXPECT_EQ(copied.column(2).values<float>(i)[1], static_cast<float>(number + 1));
    }
  }
  EXPECT_EQ(copied.column(1).num_values(3), 0);
}

TEST(ColumnTest, GroupsOfOneShapeBecomeElementsWithOneMoreDimension) {
  BufferPool pool;
  const std::vector<int64_t> offsets{0, 2, 4, 5, 8};
  Column column = Column::varying(pool, DType::kInt64, 1, offsets);
  std::iota(column.mutable_values<int64_t>().begin(), column.mutable_values<int64_t>().end(), 0);
  EXPECT_TRUE(column.same_shapes(0, 2));
  EXPECT_FALSE(column.same_shapes(2, 2));
  const Column groups = column.grouped(2, pool);
  ASSERT_EQ(groups.num_elements(), 2u);
  EXPECT_EQ(groups.shape(0), (Shape{2, 2}));
  EXPECT_EQ(groups.values<int64_t>(0)[3], 3);
  EXPECT_EQ(groups.shape(1), (Shape{4, 1})) << "unlike shapes: flat";
  EXPECT_EQ(groups.values<int64_t>(1)[0], 4);
}

TEST(ColumnTest, GroupsOfAFixedShapeShareTheValuesOfAColumnThatStays) {
  BufferPool pool;
  Column column = Column::fixed(pool, DType::kInt64, {3}, 4);
  std::iota(column.mutable_values<int64_t>().begin(), column.mutable_values<int64_t>().end(), 0);
  const std::byte* const values = column.data(0);
  const Column groups = column.grouped(2);
  EXPECT_EQ(column.num_elements(), 4u);
  EXPECT_EQ(column.fixed_shape(), Shape{3});
  const Column moved = std::move(column).grouped(2);
  for (const Column* made : {&groups, &moved}) {
    ASSERT_EQ(made->num_elements(), 2u);
    EXPECT_EQ(made->fixed_shape(), (Shape{2, 3}));
    EXPECT_EQ(made->rank(), 2);
    EXPECT_EQ(made->values<int64_t>(1)[0], 6);
    EXPECT_EQ(made->data(0), values);
  }
}

TEST(ColumnTest, LikeMakesTheSameShapesOfAnotherType) {
  BufferPool pool;
  const std::vector<int64_t> offsets{0, 2, 2, 5};
  const Column column = Column::varying(pool, DType::kInt64, 1, offsets).slice(1, 2);
  Column floats = Column::like(pool, DType::kFloat32, column);
  ASSERT_EQ(floats.num_elements(), 2u);
  EXPECT_EQ(floats.num_values(0), 0);
  EXPECT_EQ(floats.num_values(1), 3);
  for (float& value : floats.mutable_values<float>()) value = 1.5F;
  EXPECT_EQ(floats.values<float>(1)[2], 1.5F);
}

TEST(BlockTest, SelectCopiesElementsInTheOrderAskedFor) {
  BufferPool pool;
  Block block = records(pool, {"a", "b", "c", "d"});
  block.add_error(2, some_error("c"));
  block.epoch = 3;
  const std::vector<size_t> indices{3, 0, 1, 2};
  const Block chosen = block.select(indices, pool);
  const auto values = chosen.column(0).values<std::string_view>();
  EXPECT_EQ(values[0], "d");
  EXPECT_EQ(values[2], "b");
  EXPECT_EQ(chosen.error_at(3)->message, "c");
  EXPECT_EQ(chosen.epoch, 3);
}

}  // namespace
}  // namespace millrace::block_builder_test
