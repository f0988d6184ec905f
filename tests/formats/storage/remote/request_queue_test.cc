#include "millrace/formats/storage/remote/request_queue.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::request_queue_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;

std::vector<uint64_t> take_all(RequestQueue& queue) {
  std::vector<uint64_t> taken;
  while (const auto request = queue.take()) taken.push_back(*request);
  return taken;
}

TEST(RequestQueue, SendsThemInTheirOrderAndWaitsForTheRest) {
  RequestQueue queue({.most = 2, .most_small = 1});
  for (uint64_t i = 1; i <= 4; ++i) queue.add(i, "http://a/x", false);
  queue.add(5, "http://a/y", true);
  queue.add(6, "http://a/z", true);
  queue.add(7, "http://a:80/x", false);
  EXPECT_THAT(take_all(queue), testing::UnorderedElementsAre(1, 2, 5, 7));
  queue.remove(3, 0, seconds(0));  // it was waiting
  EXPECT_THAT(take_all(queue), ElementsAre());
  queue.remove(2, 200, seconds(0));
  queue.remove(2, 200, seconds(0));  // only once
  EXPECT_THAT(take_all(queue), ElementsAre(4));
  queue.remove(5, 0, seconds(0));
  EXPECT_THAT(take_all(queue), ElementsAre(6));
}

// Of requests that were sent a second time, and go on.
TEST(RequestQueue, SeesABusyServerInAnswersToRequestsThatGoOn) {
  RequestQueue queue({.most = 64});
  for (uint64_t i = 0; i < 100; ++i) queue.add(i, "http://a/x", false);
  EXPECT_EQ(take_all(queue).size(), 32U);
  EXPECT_FALSE(queue.is_busy(1, seconds(5)));
  queue.note(1, 503, seconds(5));
  EXPECT_TRUE(queue.is_busy(1, milliseconds(5999)));
  EXPECT_TRUE(queue.is_busy(2, seconds(5))) << "of the same host";
  EXPECT_FALSE(queue.is_busy(1, seconds(6)));
  for (uint64_t i = 0; i < 16; ++i) queue.remove(i, 0, seconds(5));
  EXPECT_EQ(take_all(queue).size(), 0U) << "16 are in flight, which is the limit now";
  queue.note(200, 503, seconds(9));  // nobody has it
}

TEST(RequestQueue, BeginsWithAFewAndSendsOneMoreForEachAnswer) {
  constexpr uint64_t kFirst = RequestQueue::kFirst;
  RequestQueue queue({.most = kFirst + 4});
  for (uint64_t i = 0; i < 100; ++i) queue.add(i, "https://host/bucket", false);
  EXPECT_EQ(take_all(queue).size(), kFirst);
  queue.remove(0, 206, seconds(0));
  EXPECT_THAT(take_all(queue), ElementsAre(kFirst, kFirst + 1));
  for (uint64_t i = 1; i <= 10; ++i) {
    queue.remove(i, 206, seconds(0));
    (void)take_all(queue);
  }
  queue.remove(11, 206, seconds(0));
  EXPECT_EQ(take_all(queue).size(), 1U) << "there are as many as may be";
  queue.remove(12, 0, seconds(0));
  EXPECT_EQ(take_all(queue).size(), 1U) << "no answer is no reason for more";
}

TEST(RequestQueue, SendsHalfWhereAServerIsBusy) {
  for (const int status : {429, 503}) {
    RequestQueue queue({.most = 64});
    uint64_t next = 0;
    for (; next < 200; ++next) queue.add(next, "https://host/", false);
    constexpr uint64_t kFirst = RequestQueue::kFirst;
    EXPECT_EQ(take_all(queue).size(), kFirst);
    queue.remove(0, status, seconds(1));
    queue.remove(1, status, seconds(1) + milliseconds(999));  // the same moment of its
    EXPECT_THAT(take_all(queue), ElementsAre());
    for (uint64_t i = 2; i < kFirst / 2; ++i) queue.remove(i, 0, seconds(2));
    EXPECT_THAT(take_all(queue), ElementsAre()) << "half are in flight, as many as may be";
    for (uint64_t i = kFirst / 2; i < kFirst; ++i) {
      queue.remove(i, i % 2 == 0 ? status : 0, seconds(static_cast<int64_t>(i)));
    }
    EXPECT_EQ(take_all(queue).size(), RequestQueue::kLeast);
  }
}

}  // namespace
}  // namespace millrace::request_queue_test
