#include "millrace/formats/columnar/buffer.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "millrace/formats/error.h"

namespace millrace::buffer_test {
namespace {

constexpr size_t kSizes[] = {60'000, 100 << 10, 256 << 10, 300 << 10, 700 << 10, 1 << 20};

void fill(const Buffer& buffer, uint8_t value) { std::memset(buffer->data(), value, buffer->capacity()); }

bool is_full_of(const Buffer& buffer, uint8_t value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(buffer->data());
  return bytes[0] == value && std::memcmp(bytes, bytes + 1, buffer->capacity() - 1) == 0;
}

TEST(BufferPool, GivesBuffersThatDoNotOverlap) {
  for (const size_t size : kSizes) {
    BufferPool pool;
    pool.set_limit(0, 0, nullptr);  // nothing is kept: what is dropped goes back and is made anew
    std::vector<Buffer> buffers(100);
    for (int round = 0; round < 3; ++round) {
      for (size_t i = 0; i < buffers.size(); ++i) {
        if (buffers[i]) continue;
        buffers[i] = pool.allocate(size);
        ASSERT_GE(buffers[i]->capacity(), size);
        ASSERT_EQ(reinterpret_cast<uintptr_t>(buffers[i]->data()) % 64, 0U);
        fill(buffers[i], static_cast<uint8_t>(i));
      }
      for (size_t i = 0; i < buffers.size(); ++i) ASSERT_TRUE(is_full_of(buffers[i], static_cast<uint8_t>(i))) << size;
      for (size_t i = static_cast<size_t>(round); i < buffers.size(); i += 3) buffers[i] = {};
    }
  }
}

TEST(BufferPool, GivesMemoryBackThatNobodyHolds) {
  const auto is_mapped = [](void* page) {
    unsigned char resident = 0;
    return ::mincore(page, 1, &resident) == 0 || errno != ENOMEM;
  };
  BufferPool pool;
  pool.set_limit(0, 0, nullptr);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 200; ++i) buffers.push_back(pool.allocate(256 << 10));
  // All but the first ones share huge pages.
  void* const memory = buffers[100]->data();
  buffers[100] = {};
  EXPECT_TRUE(is_mapped(memory));
  buffers.clear();
  EXPECT_FALSE(is_mapped(memory));
}

TEST(BufferPool, MakesNothingFreshOfWhatComesBack) {
  for (const size_t size : kSizes) {
    BufferPool pool;
    { const std::vector<Buffer> first{pool.allocate(size), pool.allocate(size), pool.allocate(size)}; }
    const int64_t fresh = pool.fresh_allocations();
    for (int round = 0; round < 100; ++round) {
      const std::vector<Buffer> again{pool.allocate(size), pool.allocate(size), pool.allocate(size)};
    }
    EXPECT_EQ(pool.fresh_allocations(), fresh) << size;
  }
}

TEST(BufferPool, RefusesWhatIsBeyondTheLimitButNotToWhoeverIsUnlimited) {
  constexpr size_t kMebibyte = 1 << 20;
  BufferPool pool;
  pool.refuse_beyond(10 * kMebibyte, 8 * kMebibyte);
  Buffer first = pool.allocate(6 * kMebibyte);
  const int64_t in_use = pool.bytes_in_use();
  try {
    (void)pool.allocate(6 * kMebibyte);
    ADD_FAILURE() << "beyond the limit";
  } catch (const MemoryBudgetError& error) {
    EXPECT_EQ(error.error().to_string(),
              "memory_budget: 6291456 bytes more are needed where 6291456 are in use, the memory budget is 8388608");
  }
  EXPECT_THROW((void)pool.take(6 * kMebibyte), MemoryBudgetError);
  EXPECT_EQ(pool.bytes_in_use(), in_use);
  Buffer of_user;
  {
    const BufferPool::Unlimited unlimited;
    of_user = pool.allocate(100 * kMebibyte);
  }
  // What a user took is in nobody's way.
  void* const taken = pool.take(3 * kMebibyte);
  EXPECT_THROW((void)pool.allocate(3 * kMebibyte), MemoryBudgetError);
  EXPECT_GE(pool.bytes_in_use(), static_cast<int64_t>(109 * kMebibyte));
  pool.give_back(taken, 3 * kMebibyte);
  of_user = {};
  EXPECT_EQ(pool.bytes_in_use(), in_use);
  first = {};
  EXPECT_NO_THROW((void)pool.allocate(9 * kMebibyte));
}

// Address space, too: what is mapped for a place in huge pages goes with it.
TEST(BufferPool, GivesBackAllOfWhatIsTaken) {
  const auto mapped_bytes = [] {
    std::ifstream file("/proc/self/statm");
    int64_t pages = 0;
    file >> pages;
    return pages * ::sysconf(_SC_PAGESIZE);
  };
  BufferPool pool;
  const int64_t before = mapped_bytes();
  for (int round = 0; round < 100; ++round) {
    for (const size_t bytes : {(size_t{3} << 20) + 8, (size_t{2} << 20) + 1, (size_t{1} << 20) + 4095}) {
      void* const memory = pool.take(bytes);
      std::memset(memory, round, bytes);
      pool.give_back(memory, bytes);
    }
  }
  EXPECT_EQ(pool.bytes_in_use(), 0);
  EXPECT_LT(mapped_bytes() - before, 20 << 20);
}

// An enormous request of one thread is in the way of nobody's small one.
TEST(BufferPool, RefusesNobodyForWhatAnotherDidNotGet) {
  BufferPool pool;
  pool.refuse_beyond(8 << 20, 8 << 20);
  std::atomic<bool> stop{false};
  std::thread greedy([&] {
    while (!stop) {
      EXPECT_THROW((void)pool.allocate(size_t{1} << 40), MemoryBudgetError);
      const BufferPool::Unlimited unlimited;
      (void)pool.allocate(64 << 20);
    }
  });
  for (int i = 0; i < 20'000; ++i) EXPECT_NO_THROW((void)pool.allocate(1 << 20));
  stop = true;
  greedy.join();
}

TEST(BufferPool, IsOutlivedByItsBuffers) {
  std::vector<Buffer> buffers;
  {
    BufferPool pool;
    for (int i = 0; i < 50; ++i) buffers.push_back(pool.allocate(256 << 10));
  }
  for (const Buffer& buffer : buffers) fill(buffer, 7);
  for (const Buffer& buffer : buffers) EXPECT_TRUE(is_full_of(buffer, 7));
}

}  // namespace
}  // namespace millrace::buffer_test
