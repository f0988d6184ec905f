#include "ops/arriving_rows.h"

#include <deque>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace millrace::arriving_rows_test {
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

// Runs jobs when told.
class LateJobs final : public JobRunner {
 public:
  size_t most_jobs() const noexcept override { return most; }
  [[nodiscard]] bool take(const Ref<Job>& job) noexcept override {
    if (jobs.size() >= most) return false;
    jobs.push_back(job);
    return true;
  }
  Job::Done run_first() {
    const Ref<Job> job = jobs.front();
    jobs.pop_front();
    return job->run();
  }
  size_t most = 4;
  std::deque<Ref<Job>> jobs;
};

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
  BufferPool pool_;
  RowSlab slab_{pool_};
  LateJobs runner_;
  ArrivingRows::Uncopied there_;
};

TEST_F(ArrivingRowsTest, LeaveFromWhereTheyCameInUntilAJobHasCopiedThem) {
  ArrivingRows rows(slab_, &runner_, nullptr);
  const auto slots = arrive(rows, {"one", "two", "three"}, 10);
  ASSERT_TRUE(rows.take_uncopied(11, slots[1], there_));
  EXPECT_EQ(there_.record, "two");
  EXPECT_FALSE(rows.take_uncopied(9, slots[0], there_));
  EXPECT_FALSE(rows.take_uncopied(13, slots[0], there_));
  const Job::Done done = runner_.run_first();
  EXPECT_EQ(done.rows, 3);
  EXPECT_EQ(done.bytes, 11);
  EXPECT_FALSE(rows.take_uncopied(10, slots[0], there_));
  EXPECT_EQ(bytes_at(slab_, slots[0], 3), "one");
  EXPECT_EQ(bytes_at(slab_, slots[2], 5), "three");
  // Whoever has the row keeps the memory that it came in.
  arrive(rows, {"other", "bytes", "there"}, 13);
  EXPECT_EQ(there_.record, "two");
}

TEST_F(ArrivingRowsTest, SlotsOfRowsThatLeftEarlyComeBackBehindTheCopies) {
  ArrivingRows rows(slab_, &runner_, nullptr);
  const auto slots = arrive(rows, {"early", "later"}, 0);
  ASSERT_TRUE(rows.take_uncopied(0, slots[0], there_));
  const auto is_first = [&](RowSlab::Slot slot) {
    return slot.chunk == slots[0].chunk && slot.index == slots[0].index;
  };
  EXPECT_FALSE(is_first(arrive(rows, {"other"}, 2)[0]));  // the copy will be written there
  runner_.run_first();
  EXPECT_TRUE(is_first(arrive(rows, {"again"}, 3)[0]));
}

TEST_F(ArrivingRowsTest, RowsOfABlockThatGoesOnAreGivenToNobody) {
  ArrivingRows rows(slab_, &runner_, nullptr);
  const Column records = records_of(pool_, {"a", "b"});
  ASSERT_TRUE(rows.begin_block(records, 0));
  const RowSlab::Slot first = rows.add(record_at(records, 0));
  EXPECT_TRUE(rows.take_uncopied(0, first, there_));
  EXPECT_TRUE(runner_.jobs.empty());
  const RowSlab::Slot second = rows.add(record_at(records, 1));
  rows.end_block();
  rows.end_block();
  ASSERT_EQ(runner_.jobs.size(), 1u);
  runner_.run_first();
  EXPECT_FALSE(rows.take_uncopied(1, second, there_));
  EXPECT_EQ(bytes_at(slab_, second, 1), "b");
}

TEST_F(ArrivingRowsTest, NoMoreBlocksWaitThanJobsAreTaken) {
  runner_.most = 2;
  ArrivingRows rows(slab_, &runner_, nullptr);
  arrive(rows, {"0"}, 0);
  const RowSlab::Slot second = arrive(rows, {"1"}, 1)[0];
  const Column third = records_of(pool_, {"2"});
  EXPECT_FALSE(rows.begin_block(third, 2));
  // They come in order: the first waits still, and its memory with it.
  const Ref<Job> first_job = runner_.jobs.front();
  runner_.jobs.pop_front();
  runner_.run_first();
  EXPECT_FALSE(rows.take_uncopied(1, second, there_));
  EXPECT_FALSE(rows.begin_block(third, 2));
  EXPECT_EQ(first_job->run().rows, 1);
  EXPECT_TRUE(rows.begin_block(third, 2));
}

TEST_F(ArrivingRowsTest, WhatIsNotTakenIsCopiedAtOnce) {
  runner_.most = 1;
  ArrivingRows others(slab_, &runner_, nullptr);
  arrive(others, {"other"}, 0);
  ArrivingRows rows(slab_, &runner_, nullptr);
  const RowSlab::Slot slot = arrive(rows, {"refused"}, 0)[0];
  EXPECT_FALSE(rows.take_uncopied(0, slot, there_));
  EXPECT_EQ(bytes_at(slab_, slot, 7), "refused");
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
  ArrivingRows rows(slab_, &runner_, &gate);
  EXPECT_FALSE(rows.begin_block(records_of(pool_, {std::string(1000, 'a')}), 0));
  gate.room = 4 << 20;
  EXPECT_TRUE(rows.begin_block(records_of(pool_, {std::string(1000, 'a')}), 0));
  EXPECT_FALSE(rows.begin_block(records_of(pool_, {std::string(3 << 20, 'a')}), 1));
  EXPECT_EQ(gate.reserved, 0);
  ArrivingRows nobody_copies(slab_, nullptr, nullptr);
  EXPECT_FALSE(nobody_copies.begin_block(records_of(pool_, {"a"}), 0));
}

TEST_F(ArrivingRowsTest, WhereMemoryIsShortNothingWaits) {
  Gate gate;
  gate.room = 4 << 20;
  ArrivingRows rows(slab_, &runner_, &gate);
  const auto slots = arrive(rows, {"one"}, 0);
  gate.room = 0;
  EXPECT_FALSE(rows.begin_block(records_of(pool_, {"two"}), 1));
  EXPECT_FALSE(rows.take_uncopied(0, slots[0], there_));
  EXPECT_EQ(bytes_at(slab_, slots[0], 3), "one");
}

TEST_F(ArrivingRowsTest, AFewRowsOfLargeMemoryAreNotTaken) {
  ArrivingRows rows(slab_, &runner_, nullptr);
  ColumnBuilder builder(pool_, kRecord);
  const Buffer chunk = pool_.allocate(16 << 20);
  builder.append_view({reinterpret_cast<const char*>(chunk->data()), 1000});
  builder.hold(chunk);
  EXPECT_FALSE(rows.begin_block(builder.finish(), 0));
}

TEST_F(ArrivingRowsTest, WhoeverKeepsAJobKeepsNoRowsThatWereCopied) {
  ArrivingRows rows(slab_, &runner_, nullptr);
  std::vector<Ref<Job>> kept;
  std::vector<int64_t> bytes;
  for (int64_t block = 0; block < 20; ++block) {
    const RowSlab::Slot slot = arrive(rows, {std::string(30'000, 'x')}, block)[0];
    kept.push_back(runner_.jobs.front());
    runner_.run_first();
    if (block >= 3) slab_.free(slot);  // what it was copied to before comes back, too
    bytes.push_back(pool_.bytes_in_use());
  }
  EXPECT_LE(bytes.back(), bytes[10] + 64 * 1024);
}

TEST_F(ArrivingRowsTest, CopiesMayBeMadeWhenTheSlabIsGone) {
  {
    RowSlab slab(pool_);
    ArrivingRows rows(slab, &runner_, nullptr);
    const Column records = records_of(pool_, {std::string(50'000, 'x')});
    ASSERT_TRUE(rows.begin_block(records, 0));
    EXPECT_EQ(rows.add(record_at(records, 0)).index, 0u);
    rows.end_block();
  }
  runner_.run_first();
  EXPECT_EQ(pool_.bytes_in_use(), 0);
}

}  // namespace
}  // namespace millrace::arriving_rows_test
