#include "millrace/ops/tokens/length_queue.h"

#include <deque>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/operator_chain.h"

namespace millrace::length_queue_test {
namespace {

// What it is to do, by looking at every entry.
class SlowQueue {
 public:
  void add(uint32_t entry, uint32_t length) { entries_.emplace_back(entry, length); }
  void remove(uint32_t entry) {
    std::erase_if(entries_, [entry](const auto& e) { return e.first == entry; });
  }
  uint32_t longest(uint32_t most) const {
    const std::pair<uint32_t, uint32_t>* best = nullptr;
    for (const auto& e : entries_) {
      if (e.second <= most && (best == nullptr || e.second > best->second)) best = &e;
    }
    return best == nullptr ? LengthQueue::kNone : best->first;
  }
  uint32_t oldest() const { return entries_.empty() ? LengthQueue::kNone : entries_.front().first; }

 private:
  std::deque<std::pair<uint32_t, uint32_t>> entries_;
};

TEST(LengthQueueTest, FindsTheOldestAndTheLongestThatFitsWhateverComesAndGoes) {
  for (const uint32_t most : {0U, 1U, 63U, 64U, 65U, 4095U, 4096U, 9000U}) {
    LengthQueue queue(most);
    SlowQueue slow;
    test::Dice dice(most);
    for (int i = 0; i < 4000; ++i) {
      // Up to some tens, and now and then down to none.
      const bool adds = queue.size() == 0 || (queue.size() < 50 && dice.below(i / 500 % 2 == 0 ? 3 : 2) > 0);
      if (adds) {
        const auto length = static_cast<uint32_t>(dice.below(most + 1));
        slow.add(queue.add(length), length);
      } else {
        const uint32_t gone = dice.below(2) == 0 ? queue.oldest() : queue.longest(most);
        slow.remove(gone);
        queue.remove(gone);
      }
      const auto limit = static_cast<uint32_t>(dice.below(most + 1));
      ASSERT_EQ(queue.longest(limit), slow.longest(limit)) << most << " " << i;
      ASSERT_EQ(queue.oldest(), slow.oldest());
    }
  }
}

TEST(LengthQueueTest, NamesTheFirstOfEveryLength) {
  LengthQueue queue(300);
  const uint32_t a = queue.add(0);
  queue.add(0);
  const uint32_t b = queue.add(300);
  const uint32_t c = queue.add(64);
  queue.add(64);
  std::vector<uint32_t> firsts;
  queue.for_each_first([&](uint32_t entry) { firsts.push_back(entry); });
  EXPECT_THAT(firsts, testing::ElementsAre(b, c, a));
  EXPECT_EQ(queue.first_of(5), LengthQueue::kNone);
}

}  // namespace
}  // namespace millrace::length_queue_test
