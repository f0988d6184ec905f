#include "millrace/trainer/run/ordered_work.h"

#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"

namespace millrace::ordered_work_test {
namespace {

struct Item {
  int number = 0;
  int square = 0;
};

// The squares of 0, 1, ... below `count`, where early items take the longest.
std::vector<int> squares(int threads, int count, const std::function<bool()>& stop = nullptr, bool* all = nullptr) {
  std::vector<int> written;
  int next = 0;
  const bool finished = work_in_order<Item>(
      threads, stop,
      [&](Item& item) {
        if (next == count) return false;
        item = {.number = next++};
        return true;
      },
      [&](Item& item) {
        std::this_thread::sleep_for(std::chrono::microseconds(500 * (7 - item.number % 8)));
        item.square = item.number * item.number;
      },
      [&](const Item& item) { written.push_back(item.square); });
  if (all != nullptr) *all = finished;
  return written;
}

std::vector<int> expected_squares(int count) {
  std::vector<int> values;
  for (int i = 0; i < count; ++i) values.push_back(i * i);
  return values;
}

TEST(WorkInOrder, WritesInTheOrderOfReadingWithAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3, 8}) {
    for (const int count : {0, 1, 2, 50}) {
      bool all = false;
      EXPECT_EQ(squares(threads, count, nullptr, &all), expected_squares(count)) << threads;
      EXPECT_TRUE(all);
    }
  }
}

TEST(WorkInOrder, WhatWasReadBeforeAStopIsWritten) {
  std::atomic<int> asked = 0;
  bool all = true;
  const std::vector<int> written = squares(
      2, 50, [&] { return ++asked > 10; }, &all);
  EXPECT_EQ(written, expected_squares(10));
  EXPECT_FALSE(all);
}

// Reading that waits ends without a item when it is to stop.
TEST(WorkInOrder, EndOfReadingAtAStopIsAStop) {
  bool stop = false;
  const bool all = work_in_order<Item>(
      2, [&] { return stop; }, [&](Item&) { return stop = true, false; }, [](Item&) {}, [](Item&) {});
  EXPECT_FALSE(all);
}

TEST(WorkInOrder, NeedsAThread) {
  for (const int threads : {0, -1}) EXPECT_THROW((void)squares(threads, 3), ErrorException);
}

TEST(WorkInOrder, ErrorOfEachFunctionReachesTheCaller) {
  for (const std::string failing : {"read", "work", "write"}) {
    const auto fail_in = [&](const std::string& name, const Item& item) {
      if (name == failing && item.number == 5) throw std::runtime_error(name);
    };
    int next = 0;
    try {
      work_in_order<Item>(
          3, nullptr,
          [&](Item& item) {
            item.number = next++;
            fail_in("read", item);
            return next < 50;
          },
          [&](Item& item) { fail_in("work", item); }, [&](const Item& item) { fail_in("write", item); });
      ADD_FAILURE() << failing;
    } catch (const std::runtime_error& e) {
      EXPECT_EQ(e.what(), failing);
    }
  }
}

}  // namespace
}  // namespace millrace::ordered_work_test
