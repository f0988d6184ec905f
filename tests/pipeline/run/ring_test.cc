#include "millrace/pipeline/run/ring.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <semaphore>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace millrace::ring_test {
namespace {

class CountedWaker final : public Waker {
 public:
  void wake() noexcept override { ++wakes; }
  int wakes = 0;
};

class RingTest : public ::testing::Test {
 protected:
  void make(const Ring::Options& options) {
    ring_.emplace(options, poller_, statistics_);
    ring_->set_reader(reader_);
  }
  // The poller gives the next block to a body, which begins.
  Ring::Slot& begin() {
    Ring::Slot* slot = ring_->free_slot();
    EXPECT_NE(slot, nullptr);
    slot->generation = ring_->num_filled();
    ring_->fill(*slot, /*for_body=*/true);
    ring_->begin_body(*slot);
    return *slot;
  }
  // The body ends. Whether the reader is to be woken.
  bool end(Ring::Slot& slot) {
    const bool is_waited_for = ring_->publish(slot);
    ring_->end_body();
    return is_waited_for;
  }
  // The number of the block that the reader takes; -1: there is none.
  int64_t take() {
    Ring::Slot* slot = ring_->next_ready();
    if (slot == nullptr) return -1;
    ring_->take();
    const auto number = static_cast<int64_t>(slot->generation);
    ring_->give_back(*slot);
    return number;
  }

  CountedWaker poller_;
  CountedWaker reader_;
  SegmentStatistics statistics_;
  std::optional<Ring> ring_;
};

TEST_F(RingTest, GivesBlocksInTheOrderOfFillingWhateverBodyEndsFirst) {
  make({.slots = 4});
  std::array<Ring::Slot*, 3> slots{&begin(), &begin(), &begin()};
  EXPECT_FALSE(end(*slots[2]));
  EXPECT_EQ(take(), -1);
  EXPECT_FALSE(end(*slots[0]));
  EXPECT_EQ(take(), 0);
  EXPECT_EQ(take(), -1);
  EXPECT_FALSE(end(*slots[1]));
  EXPECT_EQ(take(), 1);
  EXPECT_EQ(take(), 2);
  EXPECT_EQ(take(), -1);
}

TEST_F(RingTest, WithoutOrderGivesFirstWhatIsPublishedFirst) {
  make({.slots = 4, .ordered = false});
  std::array<Ring::Slot*, 3> slots{&begin(), &begin(), &begin()};
  for (const size_t i : {2U, 0U, 1U}) {
    EXPECT_TRUE(ring_->has_bodies());
    EXPECT_EQ(poller_.wakes, 0) << "only by the last";
    end(*slots[i]);
    EXPECT_EQ(take(), static_cast<int64_t>(i));
  }
  EXPECT_FALSE(ring_->has_bodies());
  EXPECT_EQ(poller_.wakes, 1);
}

TEST_F(RingTest, WakesTheReaderForTheBlockThatItMissedAndOnce) {
  make({.slots = 4});
  Ring::Slot& first = begin();
  Ring::Slot& second = begin();
  ring_->set_starved(true);
  EXPECT_FALSE(end(second)) << "the reader waits for another one";
  EXPECT_TRUE(end(first));
  ring_->wake_starved_reader();
  ring_->wake_starved_reader();
  EXPECT_EQ(reader_.wakes, 1);
}

TEST_F(RingTest, TellsThatTheReaderWaitsForWhatIsPolledNext) {
  make({.slots = 4});
  EXPECT_FALSE(ring_->is_waited_for()) << "it does not starve";
  ring_->set_starved(true);
  EXPECT_TRUE(ring_->is_waited_for());
  Ring::Slot& slot = begin();
  EXPECT_FALSE(ring_->is_waited_for()) << "but for what a body has";
  end(slot);
  EXPECT_EQ(take(), 0);
  EXPECT_TRUE(ring_->is_waited_for());
}

TEST_F(RingTest, WakesThePollerThatFoundNoSlotWhenOneIsGivenBack) {
  make({.slots = 2});
  end(begin());
  end(begin());
  EXPECT_EQ(take(), 0);
  EXPECT_EQ(poller_.wakes, 0) << "which did not ask";
  end(begin());
  EXPECT_EQ(ring_->free_slot(), nullptr);
  EXPECT_EQ(take(), 1);
  EXPECT_EQ(take(), 2);
  EXPECT_EQ(poller_.wakes, 1);
  EXPECT_NE(ring_->free_slot(), nullptr);
}

TEST_F(RingTest, OfLargeBlocksUsesFewerSlotsAndOneMoreForEachThatWaitsForASlowBody) {
  make({.slots = 4, .large = {.bytes = 2 * LargeBlockLimit::kLargeBlock, .slots = 1}});
  ring_->large().made(LargeBlockLimit::kLargeBlock, 0);
  EXPECT_EQ(ring_->usable_slots(), 2U);
  Ring::Slot& slow = begin();
  Ring::Slot& quick = begin();
  EXPECT_EQ(ring_->free_slot(), nullptr);
  end(quick);
  EXPECT_EQ(poller_.wakes, 1) << "a worker is idle";
  EXPECT_EQ(ring_->usable_slots(), 3U);
  end(slow);
  EXPECT_EQ(ring_->usable_slots(), 2U);
}

/// A thread that sleeps until it is woken, any number of wakes before or after.
class Thread final : public Waker {
 public:
  void wake() noexcept override { wakes_.release(); }
  void sleep() {
    wakes_.acquire();
    while (wakes_.try_acquire()) {
    }
  }

 private:
  std::counting_semaphore<> wakes_{0};
};

// A wake that is lost is a hang: the poller, two bodies and the reader sleep whenever they find nothing.
TEST(RingOfThreads, LosesNoWakeAndNoBlock) {
  constexpr int64_t kBlocks = 20'000;
  for (const bool ordered : {true, false}) {
    Thread poller;
    Thread reader;
    SegmentStatistics statistics;
    Ring ring({.slots = 3, .ordered = ordered}, poller, statistics);
    ring.set_reader(reader);
    std::counting_semaphore<> due{0};
    std::mutex mutex;
    std::vector<size_t> handed;  // to bodies
    const auto body = [&] {
      while (true) {
        due.acquire();
        size_t index = 0;
        {
          const std::lock_guard lock(mutex);
          if (handed.empty()) return;
          index = handed.back();
          handed.pop_back();
        }
        ring.begin_body(ring[index]);
        if (ring.publish(ring[index])) ring.wake_starved_reader();
        ring.end_body();
      }
    };
    std::vector<std::thread> threads;
    threads.emplace_back(body);
    threads.emplace_back(body);
    threads.emplace_back([&] {
      for (int64_t block = 0; block < kBlocks;) {
        Ring::Slot* slot = ring.free_slot();
        if (slot == nullptr) {
          poller.sleep();
          continue;
        }
        slot->generation = static_cast<uint64_t>(block++);
        ring.fill(*slot, /*for_body=*/true);
        {
          const std::lock_guard lock(mutex);
          handed.push_back(ring.index_of(*slot));
        }
        due.release();
      }
    });
    std::vector<uint64_t> taken;
    while (taken.size() < kBlocks) {
      Ring::Slot* slot = ring.next_ready();
      if (slot == nullptr) {
        ring.set_starved(true);
        slot = ring.next_ready();
        if (slot == nullptr) {
          reader.sleep();
          continue;
        }
        ring.set_starved(false);
      }
      ring.take();
      taken.push_back(slot->generation);
      ring.give_back(*slot);
    }
    due.release(2);
    for (std::thread& thread : threads) thread.join();
    if (!ordered) std::sort(taken.begin(), taken.end());
    for (size_t i = 0; i < taken.size(); ++i) ASSERT_EQ(taken[i], i);
  }
}

}  // namespace
}  // namespace millrace::ring_test
