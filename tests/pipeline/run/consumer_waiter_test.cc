#include "millrace/pipeline/run/consumer_waiter.h"

#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "millrace/formats/records/record_splitter.h"
#include "millrace/formats/records/shards.h"
#include "millrace/formats/storage/local.h"
#include "millrace/formats/storage/remote/io_threads.h"
#include "millrace/ops/sources/file_source.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/pipeline.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/support/places.h"
#include "tests/support/sanitized.h"

namespace millrace {

struct PipelineWithHelpingPolicy {
  static Pipeline start(const Dataset& dataset, const StartOptions& options, const HelpingPolicy& limits) {
    return {dataset.plan(), *dataset.plan(), options, limits};
  }
};

namespace consumer_waiter_test {
namespace {

using std::chrono::milliseconds;

void spin(std::chrono::microseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) {
  }
}

// The reserved slot is the caller's in its 32nd wait, however long it took for the others and for what it did in
// between, and stays so. A test that wants it lost has the one limit that it is about.
constexpr int64_t kForEver = 3'600'000'000'000;
constexpr HelpingPolicy kUnlimited = {.longest_to_get_ns = kForEver,
                                      .longest_to_keep_ns = kForEver,
                                      .away_to_get = 0,
                                      .away_to_keep = 0,
                                      .still = std::chrono::nanoseconds(kForEver)};
constexpr HelpingPolicy lost_when_still(std::chrono::nanoseconds still = HelpingPolicy().still) {
  HelpingPolicy limits = kUnlimited;
  limits.still = still;
  return limits;
}

/// Two workers, one of them the reserved slot, and a node whose bodies call a function.
class ConsumerWaiterTest : public testing::Test {
 protected:
  ~ConsumerWaiterTest() override {
    reserved_slot_.reset();
    executor_.stop();
  }

  void submit() { executor_.submit(node_, 0, this); }

  void make_reserved_slot(const HelpingPolicy& limits, ConsumerWaiter::ReservedSlot::Polling polling = {}) {
    reserved_slot_.emplace(caller_, executor_, std::move(polling), limits);
  }

  // What takes both workers a while is asked for, and the caller waits for it.
  void wait_for_two_bodies() {
    left_ = 2;
    for (int i = 0; i < 2; ++i) submit();
    caller_.wait();
  }
  // At the end the reserved slot has been the caller's, and is where no limit took it away.
  void wait_for_the_slot() {
    in_body_ = [this] { caller_.wake(); };
    for (int i = 0; i < HelpingPolicy::kWaits; ++i) {
      submit();
      caller_.wait();
    }
  }
  // By another thread: before the caller waits, while it looks for work, and when it has found none.
  template <typename Then>
  void wait_to_be_woken(const Then& then) {
    constexpr int kTurns = 500;
    std::atomic<int> turns = 0;
    const std::jthread other([&] {
      for (int i = 1; i <= kTurns; ++i) {
        while (turns < i) std::this_thread::yield();
        spin(std::chrono::microseconds(i % 16 * 20));
        caller_.wake();
      }
    });
    for (int i = 0; i < kTurns; ++i) {
      ++turns;
      caller_.wait();
      then();
    }
  }
  void body(std::chrono::microseconds time) {
    spin(time);
    if (--left_ == 0) caller_.wake();
  }

  const WorkerLimit limit_{2};
  ConsumerWaiter caller_;
  Executor executor_{2, int64_t{1} << 20, /*has_reserved_slot=*/true};
  std::function<void()> in_body_;
  std::atomic<int> left_ = 0;
  Executor::Node node_{executor_.graph(), tbb::flow::unlimited, TbbHandoff([this](size_t) {
                         handoff_acquire(this);
                         const Executor::Body body(executor_);
                         in_body_();
                         return tbb::flow::continue_msg();
                       })};
  std::optional<ConsumerWaiter::ReservedSlot> reserved_slot_;
};

TEST_F(ConsumerWaiterTest, GetsTheSeatInTheLastOfTheWaitsAndWorksThere) {
  make_reserved_slot(kUnlimited);
  in_body_ = [this] { body(std::chrono::microseconds(100)); };
  for (int i = 0; i < HelpingPolicy::kWaits; ++i) {
    ASSERT_FALSE(reserved_slot_->is_callers());
    wait_for_two_bodies();
  }
  ASSERT_TRUE(reserved_slot_->is_callers());
  std::atomic<bool> was_here = false;
  std::chrono::microseconds time(0);
  in_body_ = [&, me = std::this_thread::get_id()] {
    if (std::this_thread::get_id() == me) was_here = true;
    body(time);
  };
  while (!was_here) {
    time += std::chrono::microseconds(100);  // or a slow caller always finds that the other worker has done it all
    wait_for_two_bodies();
  }
}

TEST_F(ConsumerWaiterTest, GivesTheSeatBackWhenItIsAway) {
  make_reserved_slot(lost_when_still());
  wait_for_the_slot();
  while (reserved_slot_->is_callers()) std::this_thread::yield();
  std::barrier both(2);
  std::atomic<int> done = 0;
  in_body_ = [&] {
    both.arrive_and_wait();
    ++done;
  };
  submit();
  submit();
  while (done < 2) std::this_thread::yield();  // which one worker alone never gets to
}

TEST_F(ConsumerWaiterTest, GivesTheSeatBackWhenItIsAwayABitBetweenAllWaits) {
  HelpingPolicy limits = kUnlimited;
  limits.away_to_keep = HelpingPolicy().away_to_keep;
  make_reserved_slot(limits);
  wait_for_the_slot();
  ASSERT_TRUE(reserved_slot_->is_callers());
  in_body_ = [this] { body(std::chrono::microseconds(100)); };
  for (int i = 0; reserved_slot_->is_callers(); ++i) {
    wait_for_two_bodies();
    spin(milliseconds(1 +
                      i / HelpingPolicy::kWaits));  // more than a quarter of the time at last, however long waits are
  }
}

TEST_F(ConsumerWaiterTest, GivesTheSeatBackWhenWaitsBecomeLong) {
  HelpingPolicy limits = kUnlimited;
  limits.longest_to_keep_ns = HelpingPolicy().longest_to_keep_ns;
  make_reserved_slot(limits);
  wait_for_the_slot();
  in_body_ = [this] { body(milliseconds(3)); };
  for (int i = 0; i < HelpingPolicy::kWaits; ++i) {
    ASSERT_TRUE(reserved_slot_->is_callers());
    wait_for_two_bodies();
  }
  EXPECT_FALSE(reserved_slot_->is_callers());
}

TEST_F(ConsumerWaiterTest, SleepsThroughLongWaits) {
  HelpingPolicy limits = kUnlimited;
  limits.longest_to_get_ns = HelpingPolicy().longest_to_get_ns;
  make_reserved_slot(limits);
  in_body_ = [&] {
    std::this_thread::sleep_for(milliseconds(2));
    caller_.wake();
  };
  for (int i = 0; i < 100; ++i) {
    submit();
    caller_.wait();
    ASSERT_FALSE(reserved_slot_->is_callers());
  }
}

TEST_F(ConsumerWaiterTest, SleepsWhenItIsAwayBetweenTheWaits) {
  HelpingPolicy limits = kUnlimited;
  limits.away_to_get = HelpingPolicy().away_to_get;
  make_reserved_slot(limits);
  for (int i = 0; i < 2 * HelpingPolicy::kWaits; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    caller_.wake();
    caller_.wait();
    const auto waited = std::chrono::steady_clock::now() - begin;
    spin(std::chrono::ceil<std::chrono::microseconds>(waited) + std::chrono::microseconds(100));  // half of the time
    ASSERT_FALSE(reserved_slot_->is_callers());
  }
}

TEST_F(ConsumerWaiterTest, IsToldThatNothingCameThoughTheSeatIsItsOwn) {
  make_reserved_slot(lost_when_still());
  wait_for_the_slot();
  EXPECT_FALSE(caller_.wait_for(milliseconds(20)));
  while (reserved_slot_->is_callers()) std::this_thread::yield();
  caller_.wake();
  EXPECT_TRUE(caller_.wait_for(milliseconds(0))) << "a wake before the wait is not lost";
  EXPECT_FALSE(caller_.wait_for(milliseconds(0))) << "and counts once";
}

TEST_F(ConsumerWaiterTest, IsWokenByOtherThreadsWhileItHasNothingToDo) {
  make_reserved_slot(kUnlimited);
  wait_for_the_slot();
  wait_to_be_woken([this] { ASSERT_TRUE(reserved_slot_->is_callers()); });
}

// A wake that is lost leaves it asleep for good.
TEST_F(ConsumerWaiterTest, IsWokenByOtherThreadsWhileItLosesTheSeatAndGetsItBack) {
  HelpingPolicy limits = kUnlimited;
  limits.still = std::chrono::microseconds(100);
  make_reserved_slot(limits);
  wait_to_be_woken([] {});
}

TEST_F(ConsumerWaiterTest, IsLookedAfterWhileWhatItWorksOnHangs) {
  std::atomic<int> looks = 0;
  std::atomic<bool> was_here = false;
  const auto look = [&] {
    if (!was_here) return;  // a slow moment
    ++looks;
    throw std::runtime_error("look " + std::to_string(looks));
  };
  const auto work_and_hang = [&, me = std::this_thread::get_id()](std::chrono::microseconds time) {
    if (std::this_thread::get_id() == me) was_here = true;
    while (was_here && looks < 3) std::this_thread::yield();
    body(time);
  };
  try {
    // Where the reserved slot was lost before the caller came to work, with more time.
    for (int more = 1; !was_here; more *= 2) {
      make_reserved_slot(lost_when_still(more * HelpingPolicy().still), {milliseconds(5), look});
      wait_for_the_slot();
      in_body_ = [&, more] { work_and_hang(more * std::chrono::microseconds(100)); };
      for (int i = 0; i < 4; ++i) wait_for_two_bodies();
    }
    ADD_FAILURE() << "what a look throws is not heard";
  } catch (const std::runtime_error& thrown) {
    EXPECT_STREQ(thrown.what(), "look 1");
  }
  EXPECT_GE(looks, 3);
  caller_.wait();  // the wake is not lost
}

TEST_F(ConsumerWaiterTest, WaitsAsBeforeWhenTheSeatIsGone) {
  make_reserved_slot(kUnlimited);
  wait_for_the_slot();
  ASSERT_TRUE(reserved_slot_->is_callers());
  reserved_slot_.reset();
  std::atomic<int> bodies = 0;
  in_body_ = [&] {
    ++bodies;
    caller_.wake();
  };
  for (int i = 0; i < 100; ++i) {
    submit();
    caller_.wait();
  }
  EXPECT_EQ(bodies, 100);
}

/// Takes its time, so that the caller waits for it, and calls `here` where the thread that made it works for it.
class Look final : public MapOperator {
 public:
  Look(SchemaPtr schema, bool is_nonblocking, std::function<void()> here)
      : MapOperator(std::move(schema)), is_nonblocking_(is_nonblocking), here_(std::move(here)) {}
  std::string_view name() const override { return "look"; }
  OperatorTraits traits() const override { return {.is_nonblocking = is_nonblocking_}; }
  Block apply(Block block, BufferPool&) const override {
    if (std::this_thread::get_id() == maker_) here_();
    spin(std::chrono::microseconds(50));
    return block;
  }

 private:
  const bool is_nonblocking_;
  const std::function<void()> here_;
  const std::thread::id maker_ = std::this_thread::get_id();
};

Dataset looked_at(const Dataset& input, bool is_nonblocking, const std::function<void()>& here) {
  return Dataset::from_operator({input}, [here, is_nonblocking](std::span<const SchemaPtr> inputs) {
    return std::make_shared<Look>(inputs[0], is_nonblocking, here);
  });
}

Pipeline start(const Dataset& dataset, const StartOptions& options, const HelpingPolicy& limits = kUnlimited) {
  return PipelineWithHelpingPolicy::start(dataset, options, limits);
}

TEST(CallerOfNext, IsOneOfTheWorkersWhileItWaits) {
  const WorkerLimit limit(2);
  std::atomic<bool> was_here = false;
  const Dataset endless =
      looked_at(Dataset::range(0, 1 << 20).batch(1024).repeat(), true, [&was_here] { was_here = true; });
  Pipeline pipeline = start(endless, {.threads = 2});
  for (int64_t rows = 0; !was_here; rows += 1024) {
    const std::optional<Batch> batch = pipeline.next();
    ASSERT_EQ(batch->values<int64_t>("value").front(), rows % (1 << 20));
  }
}

// Unlike all others here, on limits as they are: a caller that only waits must come to be within them. What a sanitizer
// makes slow may take long to.
TEST(CallerOfNext, OfAStartedDatasetIsOneOfTheWorkersToo) {
  if (test::kSanitized) GTEST_SKIP() << "waits are too long";
  const WorkerLimit limit(2);
  std::atomic<bool> was_here = false;
  Pipeline pipeline = looked_at(Dataset::range(0, 1 << 20).batch(1024).repeat(), true, [&was_here] {
                        was_here = true;
                      }).start({.threads = 2});
  while (!was_here) ASSERT_TRUE(pipeline.next());
}

TEST(CallerOfNext, IsToldOfAStallOnceWhatItWorksOnReturns) {
  const WorkerLimit limit(2);
  std::atomic<bool> was_here = false;
  std::atomic<bool> told = false;
  const Dataset endless = looked_at(Dataset::range(0, 1 << 20).batch(1024).repeat(), true, [&] {
    was_here = true;
    while (!told) std::this_thread::yield();
  });
  const auto on_stall = [&](const Stall&) {
    if (!was_here || told) return;  // a slow moment
    told = true;
    throw std::runtime_error("stalled");
  };
  Pipeline pipeline = start(endless, {.threads = 2, .watchdog = 0.1, .on_stall = on_stall}, lost_when_still());
  int64_t rows = 0;
  EXPECT_THROW(
      for (; true; rows += 1024) { ASSERT_EQ(pipeline.next()->values<int64_t>("value").front(), rows % (1 << 20)); },
      std::runtime_error);
  EXPECT_TRUE(told);
  EXPECT_EQ(pipeline.next()->values<int64_t>("value").front(), rows % (1 << 20)) << "and nothing is lost";
}

// What waits may wait for what the caller holds; one thread is not two; a storage is somebody else's.
TEST(CallerOfNext, DoesNothingThatMayWaitNorTheWorkOfASingleThread) {
  const WorkerLimit limit(2);
  std::atomic<bool> was_here = false;
  const auto take_all = [&](bool is_nonblocking, const StartOptions& options) {
    const Dataset dataset =
        looked_at(Dataset::range(0, 512 << 10).batch(1024), is_nonblocking, [&was_here] { was_here = true; });
    Pipeline pipeline = start(dataset, options);
    while (pipeline.next()) {
    }
  };
  // Or the others say nothing.
  while (!was_here) take_all(/*is_nonblocking=*/true, {.threads = 2});
  was_here = false;
  take_all(/*is_nonblocking=*/false, {.threads = 2});
  EXPECT_FALSE(was_here);
  take_all(/*is_nonblocking=*/true, {.threads = 1});
  EXPECT_FALSE(was_here);
  IoThreads threads;
  take_all(/*is_nonblocking=*/true, {.threads = 2, .storage = std::make_shared<LocalStorage>(threads)});
  EXPECT_FALSE(was_here);
}

// Its files would be read by a splitter of its own.
class RecordsOfAUser final : public FileSourceOperator {
 public:
  explicit RecordsOfAUser(const Shards& files) : FileSourceOperator("records_of_a_user", record_schema(), files, {}) {}
  std::string_view name() const override { return "records_of_a_user"; }

 private:
  std::unique_ptr<RecordSplitter> splitter(uint64_t) const override { return nullptr; }
};

TEST(CallerOfNext, WaitsForFilesAndNotForASplitterOfAUser) {
  const Shards files = Shards::files({test::data_path("tfrecord/few.tfrecord")});
  for (const Dataset& dataset : {Dataset::tfrecord(files), Dataset::text_lines(files), Dataset::csv_records(files),
                                 Dataset::fixed_length_records(files, {.record_bytes = 4})}) {
    EXPECT_TRUE(dataset.plan()->op->traits().is_nonblocking) << dataset.plan()->op->name();
  }
  EXPECT_FALSE(RecordsOfAUser(files).traits().is_nonblocking);
}

TEST(CallerOfNext, CallsNoFunctionOfAUser) {
  const Dataset range = Dataset::range(0, 1);
  EXPECT_TRUE(range.add("value", 1).plan()->op->traits().is_nonblocking);
  const auto yes = [](const RowView&) { return true; };
  const DatasetFunction make{
      .name = "f", .gives = {{"value", DType::kInt64, {}}}, .make = [range](const RowView&) { return range; }};
  for (const Dataset& dataset : {range.map({.name = "f", .writes = {}, .function = [](const RowView&, RowWriter&) {}}),
                                 range.filter({.name = "f", .keep = yes}), range.take_while({.name = "f", .keep = yes}),
                                 range.flat_map(make), range.interleave(make)}) {
    EXPECT_FALSE(dataset.plan()->op->traits().is_nonblocking) << dataset.plan()->op->name();
  }
}

}  // namespace
}  // namespace consumer_waiter_test
}  // namespace millrace
