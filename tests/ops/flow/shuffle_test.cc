#include "millrace/ops/flow/shuffle.h"

#include <array>
#include <functional>
#include <memory>
#include <unordered_set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/batch/batch.h"
#include "millrace/ops/flow/shard.h"
#include "millrace/ops/flow/shuffle_keys.h"
#include "millrace/ops/flow/skip.h"
#include "millrace/ops/flow/take.h"
#include "millrace/ops/row_memory/row_store.h"
#include "millrace/ops/sources/range.h"
#include "millrace/ops/sources/rows.h"
#include "tests/support/operator_chain.h"

namespace millrace::shuffle_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

Chain range(int64_t count) { return Chain::source<RangeOperator>(0, count, 1, "x"); }

// By sorting all the keys.
std::vector<int64_t> expected_order(int64_t count, int64_t buffer_size, uint64_t seed, int64_t epoch = 0) {
  const ShuffleKeys keys(buffer_size, seed, {.epoch = epoch, .path = 0}, true);
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < count; ++row) rows.push_back(row);
  std::stable_sort(rows.begin(), rows.end(), [&](int64_t a, int64_t b) { return keys.key(a) < keys.key(b); });
  return rows;
}

std::vector<std::string> printed(const std::vector<int64_t>& values) {
  std::vector<std::string> elements;
  for (const int64_t value : values) elements.push_back("x=" + std::to_string(value));
  return elements;
}

TEST(ShuffleTest, RowsLeaveInOrderOfTheirKeys) {
  for (const int64_t buffer_size : {1, 2, 3, 10, 64, 500, 1000, 3000, 100000}) {
    for (const int64_t count : {0, 1, 2, 63, 500, 501, 3000}) {
      ASSERT_EQ(range(count).then<ShuffleOperator>(buffer_size, ShuffleOptions{.seed = 9}).elements(),
                printed(expected_order(count, buffer_size, 9)))
          << count << " rows, buffer of " << buffer_size;
    }
  }
}

TEST(ShuffleTest, EveryEpochHasItsOwnOrderUnlessToldOtherwise) {
  const Chain shuffled = range(50).then<ShuffleOperator>(20, ShuffleOptions{.seed = 1});
  EXPECT_EQ(shuffled.run(0, SIZE_MAX, {.epoch = 2, .path = 0}).elements, printed(expected_order(50, 20, 1, 2)));
  EXPECT_NE(shuffled.run(0, SIZE_MAX, {.epoch = 2, .path = 0}).elements, shuffled.run().elements);
  const Chain same = range(50).then<ShuffleOperator>(20, ShuffleOptions{.seed = 1, .reshuffle_each_iteration = false});
  EXPECT_EQ(same.run(0, SIZE_MAX, {.epoch = 2, .path = 0}).elements, shuffled.run().elements);
}

TEST(ShuffleTest, ErrorsMoveLikeRows) {
  const Chain shuffled = Chain::source<FaultyRange>(200, std::vector<int64_t>{0, 50, 51, 199})
                             .then<ShuffleOperator>(30, ShuffleOptions{.seed = 4});
  auto expected = printed(expected_order(200, 30, 4));
  for (std::string& element : expected) {
    for (const int64_t fault : {0, 50, 51, 199}) {
      if (element == "x=" + std::to_string(fault)) element = "error: parse: at " + std::to_string(fault);
    }
  }
  EXPECT_EQ(shuffled.elements(), expected);
}

TEST(ShuffleTest, RowsOfEverySchemaArriveWhole) {
  std::vector<MemoryFeature> features{{"text", std::vector<std::vector<std::string>>{}},
                                      {"ids", std::vector<std::vector<int32_t>>{}},
                                      {"score", std::vector<float>{}}};
  for (int i = 0; i < 300; ++i) {
    std::vector<std::string> text;
    for (int k = 0; k < i % 4; ++k) text.push_back(std::string(static_cast<size_t>(i * k), 'a'));
    std::get<std::vector<std::vector<std::string>>>(features[0].values).push_back(text);
    std::get<std::vector<std::vector<int32_t>>>(features[1].values)
        .push_back(std::vector<int32_t>(static_cast<size_t>(i % 7), i));
    std::get<std::vector<float>>(features[2].values).push_back(static_cast<float>(i) / 2);
  }
  const Chain rows = Chain::source<RowsOperator>(features);
  const auto in_order = rows.run().elements;
  std::vector<std::string> expected;
  for (const int64_t row : expected_order(300, 40, 8)) expected.push_back(in_order[static_cast<size_t>(row)]);
  EXPECT_EQ(rows.then<ShuffleOperator>(40, ShuffleOptions{.seed = 8}).elements(), expected);
}

TEST(ShuffleTest, ShufflesBatchesWithTheirRows) {
  const Chain shuffled = range(10).then<BatchOperator>(4).then<ShuffleOperator>(100);
  EXPECT_THAT(shuffled.elements(), UnorderedElementsAreArray({"x=[0,1,2,3]", "x=[4,5,6,7]", "x=[8,9]"}));
  const auto stream = shuffled.run();
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(stream.rows[i], stream.elements[i] == "x=[8,9]" ? 2 : 4);
}

TEST(ShuffleTest, LargeRowsAndBlocksThatOutliveTheStageStayIntact) {
  std::vector<std::string> payloads;
  for (int i = 0; i < 200; ++i) {
    payloads.emplace_back(static_cast<size_t>(i % 10 == 0 ? 40000 + i : i), static_cast<char>('a' + i % 26));
  }
  const Chain rows = Chain::source<RowsOperator>(std::vector<MemoryFeature>{{"record", payloads}});
  const Chain shuffled = rows.then<ShuffleOperator>(50, ShuffleOptions{.seed = 3});
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  std::vector<Block> blocks;
  {
    const auto stage = shuffled.opener(0)({pool, waker, {}, lanes});
    Block block;
    while (blocks.size() < 3 && stage->next(block) == Poll::kBlock) blocks.push_back(block);
  }
  const auto order = expected_order(200, 50, 3);
  size_t next = 0;
  for (const Block& block : blocks) {
    for (const std::string_view record : block.column(0).values<std::string_view>()) {
      ASSERT_EQ(record, payloads[static_cast<size_t>(order[next++])]);
    }
  }
  EXPECT_GT(next, 20u);
  blocks.clear();
  EXPECT_EQ(pool.bytes_in_use(), 0);
}

// The memory budget looks at the pool alone, and the next epoch finds there what this one leaves.
TEST(ShuffleTest, TakesTheMemoryOfItsEntriesFromThePool) {
  const Chain shuffled = range(20000).then<ShuffleOperator>(10000);
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  int64_t fresh = 0;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const auto stage = shuffled.opener(0)({pool, waker, {}, lanes});
    int64_t rows = 0;
    for (Block block; stage->next(block) == Poll::kBlock; block = Block()) {
      rows += block.num_elements();
      if (rows < 5000) {
        EXPECT_GT(pool.bytes_in_use(), 10000 * (64 + 64)) << "slots, and entries";
      }
    }
    EXPECT_EQ(rows, 20000);
    if (epoch > 0) {
      EXPECT_EQ(pool.fresh_allocations(), fresh);
    }
    fresh = pool.fresh_allocations();
  }
  EXPECT_EQ(pool.bytes_in_use(), 0);
}

// Records that are read to memory which others use again as soon as nobody holds it, three shards in turn; now and then
// there are none for now.
class PooledRecords final : public StageOperator {
 public:
  PooledRecords(std::vector<std::string> records, std::shared_ptr<std::unordered_set<const char*>> given)
      : StageOperator(std::make_shared<const Schema>(std::vector<FeatureSpec>{{"record", DType::kBytes, {}}})),
        records_(std::move(records)),
        given_(std::move(given)) {}
  std::string_view name() const override { return "pooled_records"; }
  Cardinality cardinality(std::span<const Cardinality>) const override {
    return Cardinality::known(static_cast<int64_t>(records_.size()));
  }
  OperatorTraits traits() const override { return {.forwards_row_views = true}; }
  std::unique_ptr<Stage> open(std::vector<OpenStage>, const StageContext& context) const override {
    given_->clear();
    return std::make_unique<Records>(records_, schema(), context, *given_);
  }

 private:
  class Records final : public Stage {
   public:
    Records(const std::vector<std::string>& records, SchemaPtr schema, const StageContext& context,
            std::unordered_set<const char*>& given)
        : records_(records), schema_(std::move(schema)), context_(context), given_(given) {}
    Poll next(Block& out) override {
      if (next_ == records_.size()) return Poll::kEnd;
      if (++polls_ % 3 == 0) {
        context_.waker.wake();
        return Poll::kPending;
      }
      // Record i is of shard i % 3; a shard's are read some at a time.
      Column column = Column::fixed(context_.pool, DType::kBytes, {}, std::min<size_t>(7, records_.size() - next_));
      for (std::string_view& row : column.mutable_values<std::string_view>()) {
        Column& read = read_[next_ % 3];
        size_t& taken = taken_[next_ % 3];
        if (taken == read.num_elements()) {
          read = read_from(next_);
          taken = 0;
        }
        row = read.values<std::string_view>()[taken++];
        read.holds().for_each([&column](const Ref<Resource>& resource) { column.hold(resource); });
        ++next_;
      }
      const size_t count = column.num_elements();
      out = Block(schema_, {std::move(column)}, count);
      return Poll::kBlock;
    }

   private:
    Column read_from(size_t record) const {
      constexpr size_t kAtOnce = 40;
      const size_t count = std::min(kAtOnce, (records_.size() - record + 2) / 3);
      Column column = Column::fixed(context_.pool, DType::kBytes, {}, count);
      size_t bytes = 0;
      for (size_t i = 0; i < count; ++i) bytes += records_[record + 3 * i].size();
      const Buffer buffer = context_.pool.allocate(bytes);
      char* to = reinterpret_cast<char*>(buffer->data());
      for (size_t i = 0; i < count; ++i) {
        const std::string& from = records_[record + 3 * i];
        column.mutable_values<std::string_view>()[i] = {to, from.size()};
        to = std::copy(from.begin(), from.end(), to);
      }
      hold_rows(column, buffer, context_.row_store.get());
      for (const std::string_view row : column.values<std::string_view>()) given_.insert(row.data());
      return column;
    }

    const std::vector<std::string>& records_;
    SchemaPtr schema_;
    StageContext context_;
    std::unordered_set<const char*>& given_;  // where rows lay that were given
    std::array<Column, 3> read_;
    std::array<size_t, 3> taken_ = {};
    size_t next_ = 0;
    int polls_ = 0;
  };
  std::vector<std::string> records_;
  const std::shared_ptr<std::unordered_set<const char*>> given_;
};

std::vector<std::string> numbered_records(int count) {
  std::vector<std::string> records;
  for (int i = 0; i < count; ++i) {
    records.push_back(std::to_string(i) + std::string(static_cast<size_t>(i % 300 == 7 ? 300'000 : i % 90), '.'));
  }
  return records;
}

// Sources put their rows into the shuffle's store; what stands between drops some of them.
TEST(ShuffleTest, RowsThatSourcesHaveStoredArriveWholeAndInOrder) {
  const std::vector<std::string> records = numbered_records(1500);
  const auto given = std::make_shared<std::unordered_set<const char*>>();
  const Chain source = Chain::source<PooledRecords>(records, given);
  struct Case {
    const char* what;
    Chain chain;
    std::function<bool(size_t)> passes;
  };
  const std::vector<Case> cases = {
      {"all", source, [](size_t) { return true; }},
      {"skip", source.then<SkipOperator>(100), [](size_t i) { return i >= 100; }},
      {"take", source.then<TakeOperator>(1001), [](size_t i) { return i < 1001; }},
      {"shard", source.then<ShardOperator>(4, 1), [](size_t i) { return i % 4 == 1; }},
      {"most dropped", source.then<ShardOperator>(97, 3), [](size_t i) { return i % 97 == 3; }},
  };
  for (const Case& of : cases) {
    std::vector<std::string> passing;
    for (size_t i = 0; i < records.size(); ++i) {
      if (of.passes(i)) passing.push_back(records[i]);
    }
    for (const int64_t buffer_size : {1, 5, 40, 300, 5000}) {
      for (const uint64_t jitter : {0, 7}) {
        const auto order = expected_order(static_cast<int64_t>(passing.size()), buffer_size, 3);
        BufferPool pool;
        test::CountingWaker waker;
        InlineLanes lanes;
        size_t next = 0;
        std::vector<Block> kept;
        {
          const auto stage = of.chain.then<ShuffleOperator>(buffer_size, ShuffleOptions{.seed = 3})
                                 .opener(jitter)({.pool = pool, .waker = waker, .iteration = {}, .lanes = lanes});
          Block block;
          for (Poll poll = stage->next(block); poll != Poll::kEnd; poll = stage->next(block)) {
            if (poll != Poll::kBlock) continue;
            for (const std::string_view record : block.column(0).values<std::string_view>()) {
              ASSERT_EQ(record, passing[static_cast<size_t>(order[next])]) << of.what << ", buffer of " << buffer_size;
              ASSERT_EQ(given->contains(record.data()), record.size() <= RowStore::kLongest) << "copied once more";
              ++next;
            }
            if (kept.size() < 2) kept.push_back(block);
            block = Block();
          }
        }
        EXPECT_EQ(next, passing.size()) << of.what << ", buffer of " << buffer_size;
        // What is lent outlives the stage.
        size_t again = 0;
        for (const Block& block : kept) {
          for (const std::string_view record : block.column(0).values<std::string_view>()) {
            ASSERT_EQ(record, passing[static_cast<size_t>(order[again++])]) << of.what;
          }
        }
        kept.clear();
        EXPECT_EQ(pool.bytes_in_use(), 0) << of.what;
      }
    }
  }
}

TEST(ShuffleTest, TakesNoMoreMemoryForRowsThatAreDroppedBeforeIt) {
  const auto peak = [](const Chain& chain) {
    BufferPool pool;
    test::CountingWaker waker;
    InlineLanes lanes;
    const auto stage =
        chain.then<ShuffleOperator>(50).opener(0)({.pool = pool, .waker = waker, .iteration = {}, .lanes = lanes});
    for (Block block; stage->next(block) != Poll::kEnd; block = Block()) {
    }
    return pool.peak_bytes_in_use();
  };
  const Chain source = Chain::source<PooledRecords>(std::vector<std::string>(5000, std::string(1000, 'x')),
                                                    std::make_shared<std::unordered_set<const char*>>());
  EXPECT_LT(peak(source), 500'000);
  EXPECT_LT(peak(source.then<ShardOperator>(5, 2)), 1'000'000) << "of 5,000,000 bytes";
}

// Blocks of its input may wait elsewhere, in the ring of a lane.
TEST(ShuffleTest, GivesItsRowsBackWhenItIsDestroyedWhoeverKeepsTheStore) {
  const auto source = std::make_shared<PooledRecords>(std::vector<std::string>(3000, std::string(1000, 'x')),
                                                      std::make_shared<std::unordered_set<const char*>>());
  for (const int64_t buffer_size : {100'000, 2000}) {  // no row has left, or some
    const ShuffleOperator shuffle(source->schema(), buffer_size);
    BufferPool pool;
    test::CountingWaker waker;
    InlineLanes lanes;
    std::shared_ptr<RowStore> store;
    {
      const OpenStage input = [&](const StageContext& context) {
        store = context.row_store;
        return source->open({}, context);
      };
      const auto stage = shuffle.open({input}, {.pool = pool, .waker = waker, .iteration = {}, .lanes = lanes});
      Block block;
      for (int polls = 0; polls < 500 && stage->next(block) != Poll::kBlock; ++polls) {
      }
      EXPECT_GT(pool.bytes_in_use(), 1'000'000);
    }
    ASSERT_NE(store, nullptr);
    EXPECT_LT(pool.bytes_in_use(), 600'000) << buffer_size << ": an empty chunk of each size stays";
  }
}

TEST(ShuffleTest, KeepsNothingOfWhatRowsWereReadTo) {
  const Chain shuffled = Chain::source<PooledRecords>(std::vector<std::string>(70, std::string(10'000, 'x')),
                                                      std::make_shared<std::unordered_set<const char*>>())
                             .then<ShuffleOperator>(200);
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  const auto stage = shuffled.opener(0)({.pool = pool, .waker = waker, .iteration = {}, .lanes = lanes});
  Block block;
  while (stage->next(block) != Poll::kBlock) {
  }
  EXPECT_LT(pool.bytes_in_use(), 70 * 10'000 * 5 / 4 + 300'000) << "slots, some of them free, and the entries";
}

TEST(ShuffleTest, RefusesABufferBelowOneAndKeepsCardinality) {
  try {
    range(3).then<ShuffleOperator>(0);
    FAIL() << "no error";
  } catch (const ErrorException& e) {
    EXPECT_EQ(e.error().message, "shuffle: buffer_size must be at least 1, not 0");
  }
  EXPECT_EQ(range(3).then<ShuffleOperator>(2).cardinality(), Cardinality::known(3));
}

}  // namespace
}  // namespace millrace::shuffle_test
