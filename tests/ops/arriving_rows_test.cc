#include "ops/arriving_rows.h"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace millrace {
namespace {

const FeatureSpec kRecord{"record", DType::kBytes, {}};

Column records_of(BufferPool& pool, const std::vector<std::string>& records) {
  ColumnBuilder builder(pool, kRecord);
  for (const std::string& record : records) builder.append_view(builder.store(record));
  return builder.finish();
}

std::string_view record_at(const Column& records, size_t element) {
  return records.values<std::string_view>()[element];
}

std::string bytes_at(const RowSlab& slab, RowSlab::Slot slot, size_t bytes) {
  return {reinterpret_cast<const char*>(slab.data(slot)), bytes};
}

class ArrivingRowsTest : public ::testing::Test {
 protected:
  // The rows of a block, and their slots.
  std::vector<RowSlab::Slot> arrive(ArrivingRows& rows, const std::vector<std::string>& records, int64_t first) {
    const Column column = records_of(pool_, records);
    EXPECT_TRUE(rows.begin_block(column, first));
    std::vector<RowSlab::Slot> slots;
    for (size_t i = 0; i < records.size(); ++i) slots.push_back(rows.add(record_at(column, i)));
    rows.end_block();
    return slots;
  }
  Column with_errands(ArrivingRows& rows) {
    ColumnBuilder leaving(pool_, kRecord);
    rows.give_errands(leaving);
    return leaving.finish();
  }

  BufferPool pool_;
  RowSlab slab_{pool_};
  ArrivingRows::Uncopied there_;
};

TEST_F(ArrivingRowsTest, LeaveFromWhereTheyCameInUntilTheErrandIsLetGo) {
  ArrivingRows rows(slab_, 2, nullptr);
  const auto slots = arrive(rows, {"one", "two", "three"}, 10);
  std::optional<Column> leaving = with_errands(rows);
  ASSERT_TRUE(rows.take_uncopied(11, slots[1], there_));
  EXPECT_EQ(there_.record, "two");
  EXPECT_FALSE(rows.take_uncopied(9, slots[0], there_));
  EXPECT_FALSE(rows.take_uncopied(13, slots[0], there_));
  leaving.reset();
  EXPECT_FALSE(rows.take_uncopied(10, slots[0], there_));
  EXPECT_EQ(bytes_at(slab_, slots[0], 3), "one");
  EXPECT_EQ(bytes_at(slab_, slots[2], 5), "three");
  // Whoever has the row keeps the memory that it came in.
  arrive(rows, {"other", "bytes", "there"}, 13);
  EXPECT_EQ(there_.record, "two");
}

TEST_F(ArrivingRowsTest, SlotsOfRowsThatLeftEarlyComeBackBehindTheCopies) {
  ArrivingRows rows(slab_, 8, nullptr);
  const auto slots = arrive(rows, {"early", "later"}, 0);
  std::optional<Column> leaving = with_errands(rows);
  ASSERT_TRUE(rows.take_uncopied(0, slots[0], there_));
  const auto is_first = [&](RowSlab::Slot slot) {
    return slot.chunk == slots[0].chunk && slot.index == slots[0].index;
  };
  EXPECT_FALSE(is_first(arrive(rows, {"other"}, 2)[0]));  // the copy will be written there
  leaving.reset();
  EXPECT_TRUE(is_first(arrive(rows, {"again"}, 3)[0]));
}

TEST_F(ArrivingRowsTest, RowsOfABlockThatGoesOnAreGivenToNobody) {
  ArrivingRows rows(slab_, 2, nullptr);
  const Column records = records_of(pool_, {"a", "b"});
  ASSERT_TRUE(rows.begin_block(records, 0));
  const RowSlab::Slot first = rows.add(record_at(records, 0));
  with_errands(rows);
  rows.make_copies();
  EXPECT_TRUE(rows.take_uncopied(0, first, there_));
  const RowSlab::Slot second = rows.add(record_at(records, 1));
  rows.end_block();
  with_errands(rows);
  EXPECT_FALSE(rows.take_uncopied(1, second, there_));
  EXPECT_EQ(bytes_at(slab_, second, 1), "b");
}

TEST_F(ArrivingRowsTest, OneBlockMoreThanMayWaitIsCopiedAtOnce) {
  ArrivingRows rows(slab_, 2, nullptr);
  std::vector<RowSlab::Slot> slots;
  for (int64_t block = 0; block < 4; ++block) slots.push_back(arrive(rows, {std::to_string(block)}, block)[0]);
  EXPECT_FALSE(rows.take_uncopied(0, slots[0], there_));
  EXPECT_EQ(bytes_at(slab_, slots[0], 1), "0");
  for (size_t block = 1; block < 4; ++block) {
    EXPECT_TRUE(rows.take_uncopied(static_cast<int64_t>(block), slots[block], there_)) << block;
  }
}

TEST_F(ArrivingRowsTest, WhatNobodyWasGivenIsCopiedWhenThereIsNothingElseToDo) {
  ArrivingRows rows(slab_, 8, nullptr);
  const auto given = arrive(rows, {"given"}, 0);
  const Column leaving = with_errands(rows);
  const auto kept = arrive(rows, {"kept"}, 1);
  rows.make_copies();
  EXPECT_TRUE(rows.take_uncopied(0, given[0], there_));
  EXPECT_FALSE(rows.take_uncopied(1, kept[0], there_));
  EXPECT_EQ(bytes_at(slab_, kept[0], 4), "kept");
}

class Gate final : public MemoryGate {
 public:
  bool admit(int64_t) noexcept override { return true; }
  bool admit_ahead(int64_t bytes) noexcept override {
    if (bytes > room) return false;
    reserved += bytes;
    return true;
  }
  void taken(int64_t bytes) noexcept override { reserved -= bytes; }
  int64_t budget() const noexcept override { return INT64_MAX; }
  int64_t room = 0;
  int64_t reserved = 0;
};

TEST_F(ArrivingRowsTest, LargeBlocksAndBlocksWithoutMemoryAreNotTaken) {
  Gate gate;
  ArrivingRows rows(slab_, 2, &gate);
  EXPECT_FALSE(rows.begin_block(records_of(pool_, {std::string(1000, 'a')}), 0));
  gate.room = 4 << 20;
  EXPECT_TRUE(rows.begin_block(records_of(pool_, {std::string(1000, 'a')}), 0));
  EXPECT_FALSE(rows.begin_block(records_of(pool_, {std::string(3 << 20, 'a')}), 1));
  EXPECT_EQ(gate.reserved, 0);
  ArrivingRows nobody_copies(slab_, 0, nullptr);
  EXPECT_FALSE(nobody_copies.begin_block(records_of(pool_, {"a"}), 0));
}

TEST_F(ArrivingRowsTest, WhereMemoryIsShortNothingWaits) {
  Gate gate;
  gate.room = 4 << 20;
  ArrivingRows rows(slab_, 8, &gate);
  const auto slots = arrive(rows, {"one"}, 0);
  gate.room = 0;
  EXPECT_FALSE(rows.begin_block(records_of(pool_, {"two"}), 1));
  EXPECT_FALSE(rows.take_uncopied(0, slots[0], there_));
  EXPECT_EQ(bytes_at(slab_, slots[0], 3), "one");
}

TEST_F(ArrivingRowsTest, AFewRowsOfLargeMemoryAreNotTaken) {
  ArrivingRows rows(slab_, 2, nullptr);
  ColumnBuilder builder(pool_, kRecord);
  const Buffer chunk = pool_.allocate(16 << 20);
  builder.append_view({reinterpret_cast<const char*>(chunk->data()), 1000});
  builder.hold(chunk);
  EXPECT_FALSE(rows.begin_block(builder.finish(), 0));
}

// A caller may keep batches whose values point into records, and with them the errand.
TEST_F(ArrivingRowsTest, WhoeverKeepsTheErrandKeepsNoRowsThatWereCopied) {
  ArrivingRows rows(slab_, 1, nullptr);
  std::vector<Column> kept;
  std::vector<int64_t> bytes;
  for (int64_t block = 0; block < 20; ++block) {
    const RowSlab::Slot slot = arrive(rows, {std::string(30'000, 'x')}, block)[0];
    kept.push_back(with_errands(rows));
    if (block >= 3) slab_.free(slot);  // what it was copied to before comes back, too
    bytes.push_back(pool_.bytes_in_use());
  }
  EXPECT_LE(bytes.back(), bytes[10] + 64 * 1024);
}

TEST_F(ArrivingRowsTest, CopiesMayBeMadeWhenTheSlabIsGone) {
  std::optional<Column> leaving;
  {
    RowSlab slab(pool_);
    ArrivingRows rows(slab, 2, nullptr);
    const Column records = records_of(pool_, {std::string(50'000, 'x')});
    ASSERT_TRUE(rows.begin_block(records, 0));
    EXPECT_EQ(rows.add(record_at(records, 0)).index, 0u);
    rows.end_block();
    leaving = with_errands(rows);
  }
  leaving.reset();
  EXPECT_EQ(pool_.bytes_in_use(), 0);
}

}  // namespace
}  // namespace millrace
