#include "millrace/formats/storage/remote/refreshed.h"

#include <deque>

#include <gtest/gtest.h>

#include "tests/formats/storage/remote/manual_http_clock.h"

namespace millrace::refreshed_test {
namespace {

using Token = Refreshed<std::string>;
using Fetched = Token::Fetched;
using std::chrono::minutes;
using std::chrono::seconds;

// Something renewed whose renewals the test answers by hand, on a clock that it turns.
class RefreshedTest : public ::testing::Test {
 protected:
  Fetched ending_in(const std::string& value, seconds time) const {
    return {.value = std::make_shared<const std::string>(value), .ends = clock_->wall_now() + time};
  }
  // Gives what was got so far, in order.
  void get() {
    token_->get([this](const Fetched& fetched) { got_.push_back(fetched.value ? *fetched.value : fetched.error); });
  }
  std::string got_at_once() {
    const size_t before = got_.size();
    get();
    return got_.size() == before ? "waits" : got_.back();
  }
  void answer(Fetched fetched) {
    const auto take = asked_.front();
    asked_.pop_front();
    take(std::move(fetched));
  }

  const std::shared_ptr<test::ManualHttpClock> clock_ = std::make_shared<test::ManualHttpClock>();
  std::deque<std::function<void(Fetched)>> asked_;
  std::vector<std::string> got_;
  const std::shared_ptr<Token> token_ =
      std::make_shared<Token>(std::make_shared<HttpEngine>(HttpEngineOptions{.clock = clock_}),
                              [this](std::function<void(Fetched)> take) { asked_.push_back(std::move(take)); });
};

using Strings = std::vector<std::string>;

TEST_F(RefreshedTest, IsAskedForOnceForAllWhoWait) {
  for (int i = 0; i < 3; ++i) get();
  EXPECT_TRUE(got_.empty());
  ASSERT_EQ(asked_.size(), 1U);
  answer(ending_in("a", minutes(60)));
  EXPECT_EQ(got_, (Strings{"a", "a", "a"}));
  EXPECT_EQ(got_at_once(), "a");
  EXPECT_TRUE(asked_.empty());
}

TEST_F(RefreshedTest, IsRenewedFiveMinutesBeforeItsEndWhileTheOldOneIsUsed) {
  get();
  answer(ending_in("a", minutes(60)));
  clock_->turn(minutes(55) - seconds(1));
  EXPECT_EQ(got_at_once(), "a");
  EXPECT_TRUE(asked_.empty());
  clock_->turn(seconds(1));
  EXPECT_EQ(got_at_once(), "a");
  EXPECT_EQ(got_at_once(), "a");
  ASSERT_EQ(asked_.size(), 1U);
  answer(ending_in("b", minutes(60)));
  EXPECT_EQ(got_at_once(), "b");
  EXPECT_TRUE(asked_.empty());
}

TEST_F(RefreshedTest, IsTriedAgainHalfAMinuteAfterARenewalThatFailed) {
  get();
  answer(ending_in("a", minutes(60)));
  clock_->turn(minutes(56));
  EXPECT_EQ(got_at_once(), "a");
  answer({.error = "refused"});
  clock_->turn(seconds(29));
  EXPECT_EQ(got_at_once(), "a");
  EXPECT_TRUE(asked_.empty());
  clock_->turn(seconds(1));
  EXPECT_EQ(got_at_once(), "a");
  ASSERT_EQ(asked_.size(), 1U);
  answer(ending_in("b", minutes(60)));
  EXPECT_EQ(got_at_once(), "b");
}

// As the metadata of an instance do, which give new ones about five minutes before the old ones end.
TEST_F(RefreshedTest, ThatEndsSoonAgainIsNotAskedForAtEveryGet) {
  get();
  answer(ending_in("a", minutes(3)));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(got_at_once(), "a");
  EXPECT_TRUE(asked_.empty());
  clock_->turn(seconds(30));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(got_at_once(), "a");
  EXPECT_EQ(asked_.size(), 1U);
}

TEST_F(RefreshedTest, ThatHasEndedIsWaitedFor) {
  get();
  answer(ending_in("a", minutes(60)));
  clock_->turn(minutes(60));
  EXPECT_EQ(got_at_once(), "waits");
  EXPECT_EQ(got_at_once(), "waits");
  ASSERT_EQ(asked_.size(), 1U);
  answer({.error = "refused"});
  EXPECT_EQ(got_, (Strings{"a", "refused", "refused"}));
  EXPECT_EQ(got_at_once(), "waits");
  answer(ending_in("b", minutes(60)));
  EXPECT_EQ(got_.back(), "b");
}

TEST_F(RefreshedTest, ThatEndsDuringItsRenewalIsWaitedFor) {
  get();
  answer(ending_in("a", minutes(60)));
  clock_->turn(minutes(58));
  EXPECT_EQ(got_at_once(), "a");
  clock_->turn(minutes(2));
  EXPECT_EQ(got_at_once(), "waits");
  ASSERT_EQ(asked_.size(), 1U);
  answer(ending_in("b", minutes(60)));
  EXPECT_EQ(got_.back(), "b");
}

TEST_F(RefreshedTest, WithoutAnEndIsAskedForOnce) {
  get();
  answer({.value = std::make_shared<const std::string>("a")});
  clock_->turn(std::chrono::hours(10'000));
  EXPECT_EQ(got_at_once(), "a");
  EXPECT_TRUE(asked_.empty());
}

TEST_F(RefreshedTest, ThatWasRefusedIsAskedForAnew) {
  std::shared_ptr<const std::string> first;
  token_->get([&](const Fetched& fetched) { first = fetched.value; });
  answer(ending_in("a", minutes(60)));
  token_->discard(first);
  EXPECT_EQ(got_at_once(), "waits");
  answer(ending_in("b", minutes(60)));
  EXPECT_EQ(got_.back(), "b");
  token_->discard(first);  // another request had it too
  EXPECT_EQ(got_at_once(), "b");
}

TEST_F(RefreshedTest, MayBeAnsweredWhereItIsAskedFor) {
  const auto token = std::make_shared<Token>(
      std::make_shared<HttpEngine>(HttpEngineOptions{.clock = clock_}),
      [](const std::function<void(Fetched)>& take) { take({.value = std::make_shared<const std::string>("a")}); });
  std::string got;
  token->get([&](const Fetched& fetched) { got = *fetched.value; });
  EXPECT_EQ(got, "a");
}

}  // namespace
}  // namespace millrace::refreshed_test
