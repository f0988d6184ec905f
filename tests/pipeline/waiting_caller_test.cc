#include "pipeline/waiting_caller.h"

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

#include <gtest/gtest.h>

#include "formats/records/record_cutter.h"
#include "formats/storage/local.h"
#include "formats/tfrecord/shards.h"
#include "ops/file_source.h"
#include "pipeline/dataset.h"
#include "pipeline/io_threads.h"
#include "pipeline/pipeline.h"
#include "pipeline/worker_limit.h"

namespace millrace::waiting_caller_test {
namespace {

using std::chrono::milliseconds;

void spin(std::chrono::microseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) {
  }
}

/// Two workers, one of them the seat, and a node whose bodies call a function.
class WaitingCallerTest : public testing::Test {
 protected:
  ~WaitingCallerTest() override {
    seat_.reset();
    executor_.stop();
  }

  void submit() { executor_.submit(node_, 0, this); }

  // What takes both workers a while is asked for, and the caller waits for it.
  void wait_for_two_bodies() {
    left_ = 2;
    for (int i = 0; i < 2; ++i) submit();
    caller_.wait();
  }
  // Again and again, until the seat is the caller's.
  void wait_until_the_seat_is_callers() {
    in_body_ = [this] {
      spin(std::chrono::microseconds(100));
      if (--left_ == 0) caller_.wake();
    };
    while (!seat_->is_callers()) wait_for_two_bodies();
  }

  const WorkerLimit limit_{2};
  WaitingCaller caller_;
  Executor executor_{2, int64_t{1} << 20, /*has_seat=*/true};
  std::function<void()> in_body_;
  std::atomic<int> left_ = 0;
  Executor::Node node_{executor_.graph(), tbb::flow::unlimited, HandedOver([this](size_t) {
                         handoff_acquire(this);
                         const Executor::Body body(executor_);
                         in_body_();
                         return tbb::flow::continue_msg();
                       })};
  std::optional<WaitingCaller::Seat> seat_{std::in_place, caller_, executor_};
};

TEST_F(WaitingCallerTest, WorksOnTheSeatWhenItWaitsMostOfTheTime) {
  EXPECT_FALSE(seat_->is_callers());
  wait_until_the_seat_is_callers();
  std::atomic<bool> was_here = false;
  in_body_ = [&, me = std::this_thread::get_id()] {
    if (std::this_thread::get_id() == me) was_here = true;
    spin(std::chrono::microseconds(100));
    if (--left_ == 0) caller_.wake();
  };
  while (!was_here) wait_for_two_bodies();
}

TEST_F(WaitingCallerTest, GivesTheSeatBackWhenItIsAway) {
  wait_until_the_seat_is_callers();
  while (seat_->is_callers()) std::this_thread::yield();
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

TEST_F(WaitingCallerTest, GivesTheSeatBackWhenItIsAwayABitBetweenAllWaits) {
  wait_until_the_seat_is_callers();
  while (seat_->is_callers()) {
    wait_for_two_bodies();
    spin(milliseconds(1));
  }
}

TEST_F(WaitingCallerTest, GivesTheSeatBackWhenWaitsBecomeLong) {
  wait_until_the_seat_is_callers();
  in_body_ = [this] {
    spin(milliseconds(3));
    if (--left_ == 0) caller_.wake();
  };
  while (seat_->is_callers()) wait_for_two_bodies();
}

TEST_F(WaitingCallerTest, SleepsThroughLongWaits) {
  in_body_ = [&] {
    std::this_thread::sleep_for(milliseconds(2));
    caller_.wake();
  };
  for (int i = 0; i < 100; ++i) {
    submit();
    caller_.wait();
    ASSERT_FALSE(seat_->is_callers());
  }
}

TEST_F(WaitingCallerTest, IsToldThatNothingCameThoughTheSeatIsItsOwn) {
  wait_until_the_seat_is_callers();
  EXPECT_FALSE(caller_.wait_for(milliseconds(20)));
  while (seat_->is_callers()) std::this_thread::yield();
  caller_.wake();
  EXPECT_TRUE(caller_.wait_for(milliseconds(0))) << "a wake before the wait is not lost";
  EXPECT_FALSE(caller_.wait_for(milliseconds(0))) << "and counts once";
}

TEST_F(WaitingCallerTest, IsWokenByOtherThreadsWhileItHasNothingToDo) {
  wait_until_the_seat_is_callers();
  constexpr int kWaits = 2000;
  std::atomic<int> waits = 0;
  std::thread other([&] {
    for (int i = 1; i <= kWaits; ++i) {
      while (waits < i) std::this_thread::yield();
      // Before the caller waits, while it looks for work, and when it has found none.
      spin(std::chrono::microseconds(i % 16 * 20));
      caller_.wake();
    }
  });
  int on_the_seat = 0;
  for (int i = 0; i < kWaits; ++i) {
    if (!seat_->is_callers()) wait_until_the_seat_is_callers();
    ++waits;
    caller_.wait();
    on_the_seat += seat_->is_callers() ? 1 : 0;
  }
  other.join();
  EXPECT_GT(on_the_seat, 0);
}

TEST_F(WaitingCallerTest, IsLookedAfterWhileWhatItWorksOnHangs) {
  std::atomic<int> looks = 0;
  std::atomic<bool> was_here = false;
  seat_.reset();
  const auto look = [&] {
    if (!was_here) return;  // a slow moment
    ++looks;
    throw std::runtime_error("look " + std::to_string(looks));
  };
  seat_.emplace(caller_, executor_, WaitingCaller::Seat::Look{milliseconds(5), look});
  wait_until_the_seat_is_callers();
  in_body_ = [&, me = std::this_thread::get_id()] {
    if (std::this_thread::get_id() == me) was_here = true;
    while (was_here && looks < 3) std::this_thread::yield();
    spin(std::chrono::microseconds(100));
    if (--left_ == 0) caller_.wake();
  };
  try {
    while (!was_here) wait_for_two_bodies();
    ADD_FAILURE() << "what a look throws is not heard";
  } catch (const std::runtime_error& thrown) {
    EXPECT_STREQ(thrown.what(), "look 1");
  }
  EXPECT_GE(looks, 3);
  caller_.wait();  // the wake is not lost
}

TEST_F(WaitingCallerTest, WaitsAsBeforeWhenTheSeatIsGone) {
  wait_until_the_seat_is_callers();
  seat_.reset();
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
  Look(SchemaPtr schema, bool never_waits, std::function<void()> here)
      : MapOperator(std::move(schema)), never_waits_(never_waits), here_(std::move(here)) {}
  std::string_view name() const override { return "look"; }
  bool never_waits() const override { return never_waits_; }
  Block apply(Block block, BufferPool&) const override {
    if (std::this_thread::get_id() == maker_) here_();
    spin(std::chrono::microseconds(50));
    return block;
  }

 private:
  const bool never_waits_;
  const std::function<void()> here_;
  const std::thread::id maker_ = std::this_thread::get_id();
};

Dataset looked_at(const Dataset& input, bool never_waits, const std::function<void()>& here) {
  return Dataset::from_operator({input}, [here, never_waits](std::span<const SchemaPtr> inputs) {
    return std::make_shared<Look>(inputs[0], never_waits, here);
  });
}

TEST(CallerOfNext, IsOneOfTheWorkersWhileItWaits) {
  const WorkerLimit limit(2);
  std::atomic<bool> was_here = false;
  const Dataset endless =
      looked_at(Dataset::range(0, 1 << 20).batch(1024).repeat(), true, [&was_here] { was_here = true; });
  Pipeline pipeline = endless.start({.threads = 2});
  for (int64_t rows = 0; !was_here; rows += 1024) {
    const std::optional<Batch> batch = pipeline.next();
    ASSERT_EQ(batch->values<int64_t>("value").front(), rows % (1 << 20));
  }
}

TEST(CallerOfNext, IsToldOfAStallOnceWhatItWorksOnReturns) {
  const WorkerLimit limit(2);
  std::atomic<bool> was_here = false;
  std::atomic<bool> told = false;
  const Dataset endless = looked_at(Dataset::range(0, 1 << 20).batch(1024).repeat(), true, [&] {
    was_here = true;
    while (!told) std::this_thread::yield();
  });
  Pipeline pipeline = endless.start({.threads = 2, .watchdog = 0.1, .on_stall = [&](const Stall&) {
                                       if (!was_here) return;  // a slow moment
                                       told = true;
                                       throw std::runtime_error("stalled");
                                     }});
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
  const auto take_all = [&](bool never_waits, const StartOptions& options) {
    const Dataset dataset =
        looked_at(Dataset::range(0, 4 << 20).batch(1024), never_waits, [&was_here] { was_here = true; });
    Pipeline pipeline = dataset.start(options);
    while (pipeline.next()) {
    }
  };
  // Or the others say nothing.
  while (!was_here) take_all(/*never_waits=*/true, {.threads = 2});
  was_here = false;
  take_all(/*never_waits=*/false, {.threads = 2});
  EXPECT_FALSE(was_here);
  take_all(/*never_waits=*/true, {.threads = 1});
  EXPECT_FALSE(was_here);
  IoThreads threads;
  take_all(/*never_waits=*/true, {.threads = 2, .storage = std::make_shared<LocalStorage>(threads)});
  EXPECT_FALSE(was_here);
}

// Its files would be read by a cutter of its own.
class RecordsOfAUser final : public FileSourceOperator {
 public:
  explicit RecordsOfAUser(const Shards& files) : FileSourceOperator(record_schema(), files, {}) {}
  std::string_view name() const override { return "records_of_a_user"; }

 private:
  std::unique_ptr<RecordCutter> cutter(uint64_t) const override { return nullptr; }
};

TEST(CallerOfNext, WaitsForFilesAndNotForACutterOfAUser) {
  const Shards files = Shards::files({MILLRACE_TEST_DATA "/tfrecord/few.tfrecord"});
  for (const Dataset& dataset : {Dataset::tfrecord(files), Dataset::text_lines(files), Dataset::csv_records(files),
                                 Dataset::fixed_length_records(files, {.record_bytes = 4})}) {
    EXPECT_TRUE(dataset.plan()->op->never_waits()) << dataset.plan()->op->name();
  }
  EXPECT_FALSE(RecordsOfAUser(files).never_waits());
}

TEST(CallerOfNext, CallsNoFunctionOfAUser) {
  const Dataset range = Dataset::range(0, 1);
  EXPECT_TRUE(range.add("value", 1).plan()->op->never_waits());
  const auto yes = [](const RowView&) { return true; };
  const DatasetFunction make{
      .name = "f", .gives = {{"value", DType::kInt64, {}}}, .make = [range](const RowView&) { return range; }};
  for (const Dataset& dataset : {range.map({.name = "f", .writes = {}, .function = [](const RowView&, RowWriter&) {}}),
                                 range.filter({.name = "f", .keep = yes}), range.take_while({.name = "f", .keep = yes}),
                                 range.flat_map(make), range.interleave(make)}) {
    EXPECT_FALSE(dataset.plan()->op->never_waits()) << dataset.plan()->op->name();
  }
}

}  // namespace
}  // namespace millrace::waiting_caller_test
