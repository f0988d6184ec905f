#include "millrace/ops/row_memory/row_slab.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/operator_chain.h"

namespace millrace::row_slab_test {
namespace {

TEST(RowSlabTest, SlotsOfAllSizesKeepTheirBytes) {
  BufferPool pool;
  RowSlab slab(pool);
  test::Dice dice(1);
  struct Row {
    RowSlab::Slot slot;
    size_t bytes;
    char fill;
  };
  std::deque<Row> rows;
  for (int step = 0; step < 20000; ++step) {
    if (rows.size() > 200) {
      const Row row = rows[dice.below(rows.size())];
      for (size_t i = 0; i < row.bytes; i += std::max<size_t>(1, row.bytes / 7)) {
        ASSERT_EQ(static_cast<char>(slab.data(row.slot)[i]), row.fill);
      }
      slab.free(rows.front().slot);
      rows.pop_front();
    }
    const size_t bytes = dice.below(50) == 0 ? dice.below(100000) : dice.below(3000);
    const char fill = static_cast<char>(dice.below(256));
    const RowSlab::Slot slot = slab.allocate(bytes);
    std::memset(slab.data(slot), fill, bytes);
    rows.push_back({slot, bytes, fill});
  }
  for (const Row& row : rows) slab.free(row.slot);
  // One empty chunk a class stays.
  EXPECT_LT(slab.bytes(), 4 << 20);
}

TEST(RowSlabTest, EmptyChunksGoBackSoThatOtherSizesCanUseTheirMemory) {
  BufferPool pool;
  RowSlab slab(pool);
  int64_t most = 0;
  for (size_t bytes = 100; bytes < 30000; bytes += 700) {
    std::vector<RowSlab::Slot> slots;
    while (slots.size() * bytes < (4 << 20)) slots.push_back(slab.allocate(bytes));
    most = std::max(most, slab.bytes());
    for (const RowSlab::Slot slot : slots) slab.free(slot);
  }
  EXPECT_LT(most, 4 * (4 << 20)) << "43 sizes, one after the other";
}

TEST(RowSlabTest, SlotsFrom512BytesOnAreWholeCacheLines) {
  BufferPool pool;
  RowSlab slab(pool);
  std::vector<std::pair<std::byte*, size_t>> slots;
  for (size_t bytes = 512; bytes < 300'000; bytes += 1 + bytes / 70) {
    for (int i = 0; i < 3; ++i) {
      std::byte* const data = slab.data(slab.allocate(bytes));
      ASSERT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0U) << bytes << " bytes";
      slots.emplace_back(data, (bytes + 63) / 64 * 64);
      std::memset(data, static_cast<int>(slots.size() % 251), slots.back().second);
    }
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto& [data, bytes] = slots[i];
    const auto mine = static_cast<std::byte>((i + 1) % 251);
    ASSERT_TRUE(std::all_of(data, data + bytes, [mine](std::byte b) { return b == mine; })) << bytes << " bytes";
  }
}

TEST(RowSlabTest, AClassWithManyRowsHasFewChunksAndKeepsNoneThatIsLarge) {
  BufferPool pool;
  RowSlab slab(pool);
  std::vector<RowSlab::Slot> slots;
  uint32_t chunks = 0;
  while (slots.size() < (64 << 10)) {
    slots.push_back(slab.allocate(1000));
    chunks = std::max(chunks, slots.back().chunk + 1);
    const auto used = static_cast<int64_t>(slots.size() * 1024);
    ASSERT_LE(slab.bytes(), used + std::max<int64_t>(used / 8, 256 << 10)) << slots.size() << " rows";
  }
  EXPECT_LT(chunks, 80U);
  // The last one to be empty is a large one.
  for (; !slots.empty(); slots.pop_back()) slab.free(slots.back());
  EXPECT_LE(slab.bytes(), 256 << 10);
}

TEST(RowSlabTest, LentRowsComeBackFromOtherThreadsAndOutliveTheSlab) {
  BufferPool pool;
  {
    std::optional<RowSlab> slab(std::in_place, pool);
    std::vector<Ref<Resource>> kept;
    for (int round = 0; round < 50; ++round) {
      std::vector<Ref<Resource>> loans;
      for (int i = 0; i < 8; ++i) {
        const Ref<RowSlab::Lease> loan = slab->lend();
        for (int row = 0; row < 20; ++row) loan->add(slab->allocate(1000));
        loans.emplace_back(loan);
      }
      if (round % 10 == 0) kept.push_back(loans.front());
      std::thread first([half = std::vector(loans.begin(), loans.begin() + 4)] {});
      std::thread second([half = std::vector(loans.begin() + 4, loans.end())] {});
      loans.clear();
      first.join();
      second.join();
      slab->collect();
    }
    EXPECT_LT(slab->bytes(), 1 << 20) << "50 rounds of 160 kB must use the same slots";
    slab.reset();
    EXPECT_GT(pool.bytes_in_use(), 0);
  }
  EXPECT_EQ(pool.bytes_in_use(), 0);
}

}  // namespace
}  // namespace millrace::row_slab_test
