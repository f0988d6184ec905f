#include "millrace/ops/row_memory/row_store.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace millrace::row_store_test {
namespace {

Column in_store(BufferPool& pool, RowStore& store, const std::vector<std::string>& records) {
  Column column = Column::fixed(pool, DType::kBytes, {}, records.size());
  std::copy(records.begin(), records.end(), column.mutable_values<std::string_view>().begin());
  store.put(column, {});
  return column;
}

// A column of rows of others, which it holds.
Column of_rows(BufferPool& pool, const std::vector<std::pair<const Column*, size_t>>& rows) {
  Column column = Column::fixed(pool, DType::kBytes, {}, rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    column.mutable_values<std::string_view>()[i] = rows[i].first->values<std::string_view>()[rows[i].second];
    rows[i].first->holds().for_each([&column](const Ref<Resource>& resource) { column.hold(resource); });
  }
  return column;
}

std::string_view row_of(const Column& column, size_t row) { return column.values<std::string_view>()[row]; }

// Bytes of which no line is like the one before.
std::string text_of(size_t length, size_t seed) {
  std::string text(length, ' ');
  for (size_t i = 0; i < length; ++i) text[i] = static_cast<char>(i * 7 + i / 64 + seed);
  return text;
}

class RowStoreTest : public ::testing::Test {
 protected:
  BufferPool pool_;
  std::shared_ptr<RowStore> store_ = std::make_shared<RowStore>(pool_);
  RowStore::Claimer taker_{store_.get()};
};

TEST_F(RowStoreTest, WhatIsTakenOutlivesItsBlockAndTheStore) {
  std::string_view row;
  const std::string large(100'000, 'x');
  Ref<RowStore::Lease> loan;
  {
    std::vector<std::string> records = {"one", "", large, "four"};
    const Column rows = in_store(pool_, *store_, records);
    for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(row_of(rows, i), records[i]);
    taker_.begin_block(rows);
    ASSERT_TRUE(taker_.may_take());
    ASSERT_TRUE(taker_.take(row_of(rows, 2)));
    row = row_of(rows, 2);
    EXPECT_FALSE(taker_.take(row)) << "a second time";
    EXPECT_FALSE(taker_.take(row_of(rows, 0))) << "out of order";
    ASSERT_TRUE(taker_.take(row_of(rows, 3)));
    loan = Ref<RowStore::Lease>(new RowStore::Lease(store_));
    loan->add(row.data());
    loan->add(row_of(rows, 3).data());
    taker_.end_block();
    EXPECT_FALSE(taker_.may_take());
  }
  in_store(pool_, *store_, {"others", "take", std::string(100'000, 'y'), "what is free"});
  EXPECT_EQ(row, large);
  taker_.begin_block(Column::fixed(pool_, DType::kBytes, {}, 0));
  EXPECT_FALSE(taker_.may_take());
  store_.reset();
  EXPECT_EQ(row, large);
  loan = {};
  EXPECT_EQ(pool_.bytes_in_use(), 0);
}

TEST_F(RowStoreTest, RowsOfAllLengthsKeepTheirBytesBesideOthers) {
  std::vector<std::string> records;
  for (size_t length : {0,        1,      55,     56,      57,
                        63,       64,     65,     500,     503,
                        504,      505,    511,    512,     513,
                        567,      568,    569,    1376,    4096,
                        32'759,   32'760, 32'761, 100'000, (256 << 10) - 1,
                        256 << 10}) {
    for (size_t i = 0; i < 3; ++i) records.push_back(text_of(length, records.size()));
  }
  for (int round = 0; round < 3; ++round) {
    const Column rows = in_store(pool_, *store_, records);
    const Column others = in_store(pool_, *store_, records);
    for (size_t i = 0; i < records.size(); ++i) {
      ASSERT_EQ(row_of(rows, i), records[i]) << records[i].size() << " bytes";
      ASSERT_EQ(row_of(others, i), records[i]) << records[i].size() << " bytes";
    }
    std::reverse(records.begin(), records.end());
  }
}

TEST_F(RowStoreTest, WhatNobodyTookIsFreeWithItsBlock) {
  Ref<RowStore::Lease> loan(new RowStore::Lease(store_));
  const char* taken = nullptr;
  const char* left = nullptr;
  {
    const Column rows = in_store(pool_, *store_, {"left", "taken"});
    taker_.begin_block(rows);
    ASSERT_TRUE(taker_.take(row_of(rows, 1)));
    left = row_of(rows, 0).data();
    taken = row_of(rows, 1).data();
    loan->add(taken);
    taker_.end_block();
  }
  const Column others = in_store(pool_, *store_, {"a", "b", "c"});
  EXPECT_EQ(row_of(others, 0).data(), left);
  for (size_t i = 0; i < 3; ++i) EXPECT_NE(row_of(others, i).data(), taken);
  loan = {};
  EXPECT_EQ(row_of(in_store(pool_, *store_, {"d"}), 0).data(), taken);
}

TEST_F(RowStoreTest, ShardsThatTakeTurnsAreFollowedOverDroppedRowsAndBlocksThatEnd) {
  const auto shard = [&](char name, size_t count) {
    std::vector<std::string> records;
    for (size_t i = 0; i < count; ++i) records.push_back(name + std::to_string(i));
    return in_store(pool_, *store_, records);
  };
  const Column a = shard('a', 40);
  const Column b = shard('b', 2);
  const Column c = shard('c', 40);
  const Column d = shard('d', 40);  // goes on where b ends
  const auto second = [&](size_t turn) { return turn < 2 ? std::pair(&b, turn) : std::pair(&d, turn - 2); };
  for (const size_t step : {1, 3}) {
    std::vector<std::pair<const Column*, size_t>> order;
    const size_t first = step == 1 ? 0 : 10;
    for (size_t turn = first; turn < first + 10; ++turn) {
      const size_t at = first + (turn - first) * step;
      order.emplace_back(&a, at);
      order.push_back(second(at));
      order.emplace_back(&c, at);
    }
    const Column block = of_rows(pool_, order);
    taker_.begin_block(block);
    for (size_t i = 0; i < order.size(); ++i) EXPECT_TRUE(taker_.take(row_of(block, i))) << row_of(block, i);
  }
  taker_.begin_block(d);
  EXPECT_FALSE(taker_.take(row_of(shard('e', 1), 0)));
  const Column long_shard = shard('f', 100);
  taker_.begin_block(long_shard);
  EXPECT_TRUE(taker_.take(row_of(long_shard, 10)));
  EXPECT_TRUE(taker_.take(row_of(long_shard, 90)));
  EXPECT_FALSE(taker_.take(row_of(long_shard, 11)));
  EXPECT_TRUE(taker_.take(row_of(long_shard, 91)));
}

// Each row of a mix that is in no store would be compared with all rows that wait for their turn.
TEST_F(RowStoreTest, IsNotSearchedAgainAndAgainForRowsThatAreInNone) {
  std::vector<std::string> records;
  for (int i = 0; i < 200; ++i) records.push_back(std::to_string(i));
  const Column rows = in_store(pool_, *store_, records);
  taker_.begin_block(rows);
  EXPECT_TRUE(taker_.take(row_of(rows, 50))) << "others were dropped";
  EXPECT_FALSE(taker_.take("in none"));
  EXPECT_FALSE(taker_.take("in none either"));
  EXPECT_TRUE(taker_.take(row_of(rows, 60)));
  EXPECT_FALSE(taker_.take(row_of(rows, 100)));
  taker_.begin_block(rows);
  EXPECT_TRUE(taker_.take(row_of(rows, 100)));
}

TEST_F(RowStoreTest, LongRowsStayWhereTheyWereRead) {
  const Buffer read_to = pool_.allocate(400'000);
  const char* bytes = reinterpret_cast<const char*>(read_to->data());
  Column rows = Column::fixed(pool_, DType::kBytes, {}, 2);
  rows.mutable_values<std::string_view>()[0] = {bytes, RowStore::kLongest + 1};
  rows.mutable_values<std::string_view>()[1] = {bytes, RowStore::kLongest};
  store_->put(rows, read_to);
  EXPECT_TRUE(rows.holds().contains(read_to));
  EXPECT_EQ(row_of(rows, 0).data(), bytes);
  taker_.begin_block(rows);
  EXPECT_FALSE(taker_.take(row_of(rows, 0)));
  EXPECT_TRUE(taker_.take(row_of(rows, 1)));
}

TEST_F(RowStoreTest, RowsOfAnotherStoreAreNotTaken) {
  const auto other = std::make_shared<RowStore>(pool_);
  const Column rows = in_store(pool_, *other, {"a"});
  taker_.begin_block(rows);
  EXPECT_FALSE(taker_.may_take());
  EXPECT_FALSE(taker_.take(row_of(rows, 0)));
}

// Sources put rows, one thread takes every other one, others give them back.
TEST_F(RowStoreTest, ThreadsPutTakeAndFreeAtOnce) {
  constexpr int kBlocks = 200;
  constexpr size_t kRows = 50;
  struct Lane {
    std::array<std::atomic<Column*>, kBlocks> blocks{};
    std::thread thread;
  };
  const auto record = [](size_t lane, size_t block, size_t row) {
    // Some go past the caches, and some do not.
    return fmt::format("{} {} {}", lane, block, row) + text_of((row * 37 + block) % 1200, lane + block + row);
  };
  std::array<Lane, 3> lanes;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    lanes[lane].thread = std::thread([&, lane] {
      for (size_t block = 0; block < kBlocks; ++block) {
        std::vector<std::string> records;
        for (size_t row = 0; row < kRows; ++row) records.push_back(record(lane, block, row));
        lanes[lane].blocks[block] = new Column(in_store(pool_, *store_, records));
      }
    });
  }
  struct Lent {
    Ref<RowStore::Lease> loan;
    std::vector<std::pair<std::string_view, std::string>> rows;
  };
  std::array<std::atomic<Lent*>, kBlocks> lent{};
  std::thread reader([&] {
    for (auto& place : lent) {
      while (place == nullptr) std::this_thread::yield();
      const std::unique_ptr<Lent> mine(place.load());
      for (const auto& [row, expected] : mine->rows) ASSERT_EQ(row, expected);
    }
  });
  for (size_t block = 0; block < kBlocks; ++block) {
    auto out = std::make_unique<Lent>();
    out->loan = Ref<RowStore::Lease>(new RowStore::Lease(store_));
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      while (lanes[lane].blocks[block] == nullptr) std::this_thread::yield();
      const std::unique_ptr<Column> rows(lanes[lane].blocks[block].load());
      taker_.begin_block(*rows);
      for (size_t row = lane % 2; row < kRows; row += 2) {
        ASSERT_TRUE(taker_.take(row_of(*rows, row)));
        out->loan->add(row_of(*rows, row).data());
        out->rows.emplace_back(row_of(*rows, row), record(lane, block, row));
      }
    }
    lent[block] = out.release();
  }
  reader.join();
  for (Lane& lane : lanes) lane.thread.join();
  taker_.begin_block(Column::fixed(pool_, DType::kBytes, {}, 0));
  store_.reset();
  EXPECT_EQ(pool_.bytes_in_use(), 0);
}

}  // namespace
}  // namespace millrace::row_store_test
