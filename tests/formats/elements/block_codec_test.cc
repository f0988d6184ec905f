#include "millrace/formats/elements/block_codec.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/formats/records/skipped_region.h"
#include "tests/support/operator_chain.h"

namespace millrace::block_codec_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SchemaPtr of(std::vector<FeatureSpec> features) { return std::make_shared<const Schema>(std::move(features)); }

std::vector<std::string> printed(const Block& block) {
  std::vector<std::string> elements;
  for (size_t i = 0; i < block.num_elements(); ++i) elements.push_back(test::print_element(block, i));
  return elements;
}

class BlockCodecTest : public ::testing::Test {
 protected:
  // What comes back from bytes that are there no longer than the block.
  Block decoded(std::string_view bytes, const SchemaPtr& schema) {
    const Buffer buffer = pool_.allocate(bytes.size());
    std::memcpy(buffer->data(), bytes.data(), bytes.size());
    return decode_block({reinterpret_cast<const char*>(buffer->data()), bytes.size()}, buffer, schema, pool_, names_);
  }
  Block again(const Block& block) {
    BlockEncoder encoder(block.schema());
    encoder.append(block, 0, block.num_elements());
    const std::string bytes(encoder.finish());
    for (size_t i = 0; i < block.num_elements(); ++i) encoder.append(block, i, 1);
    EXPECT_TRUE(block.num_elements() == 0 || encoder.finish() == bytes) << "element by element";
    return decoded(bytes, block.schema());
  }

  BufferPool pool_;
  std::shared_ptr<ShardNames> names_ = std::make_shared<ShardNames>();
};

TEST_F(BlockCodecTest, EveryTypeAndShapeComesBack) {
  const SchemaPtr schema = of({{.name = "i", .dtype = DType::kInt32, .shape = {}},
                               {.name = "v", .dtype = DType::kInt64, .shape = {kVaries}},
                               {.name = "m", .dtype = DType::kFloat32, .shape = {kVaries, 2}},
                               {.name = "s", .dtype = DType::kBytes, .shape = {kVaries}},
                               {.name = "r", .dtype = DType::kInt64, .shape = {kVaries, kRagged}},
                               {.name = "f", .dtype = DType::kInt64, .shape = {2}}});
  BlockBuilder builder(schema, pool_);
  for (int32_t i = 0; i < 3; ++i) {
    const std::vector<int64_t> v(static_cast<size_t>(i), 10 + i);
    const std::vector<float> m(static_cast<size_t>(2 * i), 0.5F);
    const std::vector<std::string_view> s(static_cast<size_t>(2 - i), "ab");
    const std::vector<int64_t> r(static_cast<size_t>(i + 1), 7);
    builder.column(0).append<int32_t>({&i, 1}, {});
    builder.column(1).append<int64_t>(v, std::vector<int64_t>{i});
    builder.column(2).append<float>(m, std::vector<int64_t>{i, 2});
    builder.column(3).append<std::string_view>(s, std::vector<int64_t>{2 - i});
    // Two rows: one value, and the rest.
    builder.column(4).append<int64_t>(r, std::vector<int64_t>{2, 0, 1, i + 1});
    builder.column(5).append<int64_t>(std::vector<int64_t>{i, -i}, std::vector<int64_t>{2});
    builder.added_elements(1);
  }
  Block block = builder.finish();
  block.epoch = 3;
  const Block back = again(block);
  EXPECT_EQ(printed(back), printed(block));
  EXPECT_EQ(printed(back)[2], "i=2 v=[12,12] m=[[0.5,0.5],[0.5,0.5]] s=[] r=[[7],[7,7]] f=[2,-2]");
  EXPECT_EQ(back.epoch, 3);
  EXPECT_TRUE(*back.schema() == *schema);
  // A slice begins in the middle of its buffers.
  EXPECT_EQ(printed(again(block.slice(1, 2))), printed(block.slice(1, 2)));
  EXPECT_EQ(again(block.slice(0, 0)).num_elements(), 0u);
}

TEST_F(BlockCodecTest, NotesAndOriginsStayInTheirPlaces) {
  const SchemaPtr schema = of({{.name = "v", .dtype = DType::kInt64, .shape = {kVaries}}});
  BlockBuilder builder(schema, pool_);
  const auto names = std::make_shared<ShardNames>();
  const auto add = [&](int64_t value, const char* shard, uint64_t offset, uint64_t record) {
    const Origin origin(names->add(shard), offset, record);
    builder.append_origins(&origin, 1, names);
    builder.column(0).append<int64_t>({&value, 1}, std::vector<int64_t>{1});
    builder.added_elements(1);
  };
  add(5, "b.tfrecord", 4000, 17);
  Error note{.code = ErrorCode::kPayloadCrc, .message = "bad", .shard = "a.tfrecord", .offset = 70, .record = 2};
  note.skipped = std::make_shared<const SkippedRegion>(
      SkippedRegion{.shard = "a.tfrecord", .begin = 70, .end = 90, .first_record = 2, .records = 1, .reason = "bad"});
  builder.append_error(std::make_shared<const Error>(note));
  add(6, "a.tfrecord", 90, 3);
  add(7, "b.tfrecord", 10, 0);
  const Block back = again(builder.finish());
  ASSERT_EQ(back.num_elements(), 4u);
  EXPECT_EQ(test::print_element(back, 3), "v=[7]");
  const auto noted = back.error_at(1);
  ASSERT_NE(noted, nullptr);
  ASSERT_NE(noted->skipped, nullptr);
  EXPECT_EQ(noted->to_string(), note.to_string());
  EXPECT_EQ(noted->skipped->to_string(), note.skipped->to_string());
  std::vector<std::string> places;
  for (const size_t element : {0, 2, 3}) {
    Error error;
    back.locate(element, error);
    places.push_back(fmt::format("{} {} {}", error.shard, error.offset, error.record));
  }
  EXPECT_THAT(places, ElementsAre("b.tfrecord 4000 17", "a.tfrecord 90 3", "b.tfrecord 10 0"));
}

TEST_F(BlockCodecTest, WhereABlockEndsDependsOnTheElementsAlone) {
  const SchemaPtr schema = of({{.name = "v", .dtype = DType::kInt64, .shape = {kVaries}}});
  BlockBuilder builder(schema, pool_);
  for (int64_t i = 0; i < 3000; ++i) {
    const std::vector<int64_t> values(static_cast<size_t>(i % 97), i);
    builder.column(0).append<int64_t>(values, std::vector<int64_t>{i % 97});
    builder.added_elements(1);
  }
  const Block all = builder.finish();
  const auto encoded = [&](uint64_t seed) {
    test::Dice dice(seed);
    BlockEncoder encoder(schema);
    std::vector<std::string> blocks;
    for (size_t first = 0; first < all.num_elements();) {
      const Block part = all.slice(first, std::min(1 + dice.below(700), all.num_elements() - first));
      for (size_t i = 0; i < part.num_elements();) {
        const size_t count = encoder.room_for(part, i);
        if (count == 0) blocks.emplace_back(encoder.finish());
        encoder.append(part, i, count);
        i += count;
      }
      first += part.num_elements();
    }
    blocks.emplace_back(encoder.finish());
    return blocks;
  };
  const std::vector<std::string> blocks = encoded(1);
  EXPECT_GT(blocks.size(), 3u);
  for (uint64_t seed = 2; seed < 6; ++seed) EXPECT_EQ(encoded(seed), blocks) << seed;
}

TEST_F(BlockCodecTest, WhereABlockOfFixedRowsEndsDependsOnTheElementsAlone) {
  const SchemaPtr schema = of({{.name = "v", .dtype = DType::kInt64, .shape = {100}}});
  BlockBuilder builder(schema, pool_);
  const auto names = std::make_shared<ShardNames>();
  const auto note = std::make_shared<const Error>(
      Error{.code = ErrorCode::kPayloadCrc,
            .message = std::string(500, 'm'),
            .skipped = std::make_shared<const SkippedRegion>(SkippedRegion{.shard = "a", .reason = "bad"})});
  const std::vector<int64_t> values(100, 7);
  for (uint64_t i = 0; i < 3000; ++i) {
    if (i % 50 == 49) {
      builder.append_error(note);
      continue;
    }
    const Origin origin(names->add(fmt::format("{} of a long name.tfrecord", i % 30)), i * 1'000'003, i * 10'007);
    builder.append_origins(&origin, 1, names);
    builder.column(0).append<int64_t>(values, std::vector<int64_t>{100});
    builder.added_elements(1);
  }
  const Block all = builder.finish();
  const auto encoded = [&](size_t at_a_time) {
    BlockEncoder encoder(schema);
    std::vector<std::string> blocks;
    for (size_t first = 0; first < all.num_elements();) {
      const Block part = all.slice(first, std::min(at_a_time, all.num_elements() - first));
      for (size_t i = 0; i < part.num_elements();) {
        const size_t count = encoder.room_for(part, i);
        if (count == 0) blocks.emplace_back(encoder.finish());
        encoder.append(part, i, count);
        i += count;
      }
      first += part.num_elements();
    }
    blocks.emplace_back(encoder.finish());
    return blocks;
  };
  const std::vector<std::string> blocks = encoded(1);
  EXPECT_EQ(blocks.size(), 10u);  // of 328 elements
  for (const size_t at_a_time : {7, 100, 327, 328, 3000}) EXPECT_TRUE(encoded(at_a_time) == blocks) << at_a_time;
}

TEST_F(BlockCodecTest, FixedDimensionsAreThoseOfTheSchemaExceptBelowNotes) {
  const auto note = std::make_shared<const Error>(
      Error{.skipped = std::make_shared<const SkippedRegion>(SkippedRegion{.shard = "a", .reason = "bad"})});
  const auto check = [&](const Shape& shape, const Shape& other, const std::vector<int64_t>& sizes) {
    const SchemaPtr schema = of({{.name = "v", .dtype = DType::kInt64, .shape = shape}});
    BlockBuilder builder(schema, pool_);
    builder.append_error(note);
    builder.column(0).append<int64_t>(std::vector<int64_t>(6, 1), sizes);
    builder.added_elements(1);
    builder.append_error(note);
    const Block block = builder.finish();
    EXPECT_EQ(test::print_element(again(block), 1), test::print_element(block, 1));
    BlockEncoder encoder(schema);
    encoder.append(block, 0, 3);
    const std::string bytes(encoder.finish());
    EXPECT_THROW(decoded(bytes, of({{.name = "v", .dtype = DType::kInt64, .shape = other}})), ErrorException);
  };
  check({kVaries, 3}, {kVaries, 2}, {2, 3});
  check({kVaries, kRagged, 2}, {kVaries, kRagged, 3}, {1, 0, 3, 2});
  check({1, kRagged, 2}, {2, kRagged, 2}, {1, 0, 3, 2});
}

TEST(ByteReader, NumbersAreReadInTheOneWayInWhichTheyAreWritten) {
  for (const uint64_t number : {uint64_t{0}, uint64_t{127}, uint64_t{128}, uint64_t{1} << 63, UINT64_MAX}) {
    ByteWriter writer;
    writer.put(number);
    EXPECT_EQ(ByteReader(writer.bytes()).take(), number);
  }
  const std::string nine(9, '\xff');
  for (const std::string& bytes : {std::string("\x80\0", 2), std::string("\xff\x80\0", 3), nine + '\2', nine + '\x7f',
                                   nine + "\x81\1", nine + '\0'}) {
    EXPECT_THROW((void)ByteReader(bytes).take(), ErrorException) << ::testing::PrintToString(bytes);
  }
}

TEST_F(BlockCodecTest, BytesThatAreNotOfTheSchemaAreRefused) {
  const SchemaPtr numbers = of({{.name = "v", .dtype = DType::kInt64, .shape = {2}}});
  BlockBuilder builder(numbers, pool_);
  builder.column(0).append<int64_t>(std::vector<int64_t>{1, 2}, std::vector<int64_t>{2});
  builder.added_elements(1);
  BlockEncoder encoder(numbers);
  encoder.append(builder.finish(), 0, 1);
  const std::string bytes(encoder.finish());
  EXPECT_EQ(printed(decoded(bytes, numbers)), (std::vector<std::string>{"v=[1,2]"}));
  EXPECT_THROW(decoded(bytes, of({{.name = "v", .dtype = DType::kInt32, .shape = {2}}})), ErrorException);
  EXPECT_THROW(decoded(bytes, of({{.name = "v", .dtype = DType::kInt64, .shape = {3}}})), ErrorException);
  EXPECT_THROW(decoded(bytes, of({{.name = "v", .dtype = DType::kInt64, .shape = {kVaries}}})), ErrorException);
  EXPECT_THROW(decoded(bytes.substr(0, bytes.size() - 1), numbers), ErrorException);
  EXPECT_THROW(decoded(bytes + '\0', numbers), ErrorException);
}

}  // namespace
}  // namespace millrace::block_codec_test
