#include "millrace/pipeline/watch/watchdog.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <limits>
#include <optional>
#include <regex>
#include <semaphore>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/local.h"
#include "millrace/formats/tfrecord/writer.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/run/lowered_plan.h"
#include "millrace/pipeline/run/output_thread.h"
#include "millrace/pipeline/run/stage_statistics.h"
#include "millrace/pipeline/watch/stall_report.h"
#include "millrace/pipeline/watch/watched_storage.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/support/injecting_storage.h"
#include "tests/support/manual_storage.h"
#include "tests/support/temporary_folder.h"

namespace millrace::watchdog_test {
namespace {

using namespace std::chrono_literals;
using test::ManualStorage;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Collects what the watchdog says and, once it says what a test waits for, lets the pipeline go on. On a busy machine
/// it may bark before the pipeline has come to the place where it stands still, and after it.
struct Stalls {
  std::vector<Stall> all;
  std::string expected;                // a regular expression for the cause
  std::vector<std::string> in_report;  // regular expressions for what the report says as well
  std::function<void()> then;          // called at the first stall of this cause, or when the test is lost
  std::optional<Stall> found;

  std::function<void(const Stall&)> collect() {
    return [this](const Stall& stall) {
      constexpr size_t kMostInVain = 100;
      all.push_back(stall);
      const bool is_due = !found && std::regex_search(stall.cause, std::regex(expected)) &&
                          std::all_of(in_report.begin(), in_report.end(), [&](const std::string& part) {
                            return std::regex_search(stall.report, std::regex(part));
                          });
      if (is_due) found = stall;
      if (then && (is_due || all.size() == kMostInVain)) then();
    };
  }
  std::string causes() const {
    std::string text = "expected " + expected + ", found:";
    for (const Stall& stall : all) text += "\n" + stall.cause;
    if (!in_report.empty() && !all.empty()) text += "\nthe last report:\n" + all.back().report;
    return text;
  }
};

/// Functions wait here until it is opened.
class Gate {
 public:
  void pass() const { open_.wait(false); }
  void open() {
    open_ = true;
    open_.notify_all();
  }

 private:
  std::atomic<bool> open_{false};
};

class WatchdogTest : public testing::Test {
 protected:
  std::string shard(const std::string& name, int records, size_t bytes) {
    const std::string path = folder_.path(name + ".tfrecord");
    RecordWriter writer(path);
    for (int i = 0; i < records; ++i) writer.write(std::string(bytes, static_cast<char>('a' + i % 26)));
    writer.close();
    return path;
  }
  Dataset records(const TfrecordOptions& options = {}) {
    return Dataset::tfrecord(Shards::glob(folder_.path("*.tfrecord")), options);
  }
  // Owned by the test, as its storages must outlive the threads of their timers.
  static std::shared_ptr<Storage> lend(Storage& storage) { return {std::shared_ptr<void>(), &storage}; }
  static int64_t count(Pipeline& pipeline) {
    int64_t elements = 0;
    while (pipeline.next()) ++elements;
    return elements;
  }

  test::TemporaryFolder folder_;
  InlineExecutor inline_executor_;
  LocalStorage local_{inline_executor_};
};

RowFunction each(std::string name, std::function<void(int64_t)> function) {
  return {.name = std::move(name), .writes = {}, .function = [function](const RowView& row, RowWriter&) {
            function(row.value<int64_t>("value"));
          }};
}

TEST_F(WatchdogTest, NamesTheReadsThatAStorageDoesNotAnswer) {
  const std::string a = shard("a", 3, 100);
  const std::string b = shard("b", 3, 100);
  ManualStorage storage(local_, {.opens = ManualStorage::kAll, .reads = 1});
  Stalls stalls;
  stalls.expected =
      "^next\\(\\) waits for segment 1, which waits for the storage: reading bytes 0 to 348 of .*/[ab]\\.tfrecord has "
      "not "
      "been answered for [0-9.]+ s$";
  stalls.in_report = {"\n +lane [01]: chain: waits for input for [0-9.]+ s; ring: 0 of 2 slots taken",
                      "\n  chain: waits for input for [0-9.]+ s; ring: 0 of 4 slots taken, 0 ready\n"};
  stalls.then = [&] { storage.release(); };
  Pipeline pipeline =
      records({.cycle_length = 2})
          .batch(2)
          .start({.threads = 2, .storage = lend(storage), .watchdog = 0.2, .on_stall = stalls.collect()});
  EXPECT_EQ(count(pipeline), 3);
  ASSERT_TRUE(stalls.found) << stalls.causes();
  const Stall& stall = *stalls.found;
  EXPECT_GE(stall.seconds, 0.2);
  EXPECT_THAT(stall.report, StartsWith("nothing has moved for "));
  EXPECT_THAT(stall.report, HasSubstr("segment 0: [0:tfrecord.read], 2 lanes\n"));
  EXPECT_THAT(stall.report, HasSubstr("segment 1: [1:tfrecord | 2:batch]\n  chain: waits for input for "));
  EXPECT_THAT(stall.report, HasSubstr("files: "));
  EXPECT_THAT(stall.report, HasSubstr(stall.cause + "\n"));
}

TEST_F(WatchdogTest, NamesTheOpensThatAStorageDoesNotAnswer) {
  shard("a", 3, 100);
  shard("b", 3, 100);
  test::InjectingStorage storage(local_, {.min_latency = 1h, .max_latency = 1h});
  Stalls stalls;
  stalls.expected =
      "the storage: opening .*/[ab]\\.tfrecord has not been answered for [0-9.]+ s, nor have 1 other requests$";
  stalls.then = [] { throw ErrorException(ErrorCode::kIo, "given up"); };
  Pipeline pipeline =
      records().start({.threads = 1, .storage = lend(storage), .watchdog = 0.1, .on_stall = stalls.collect()});
  EXPECT_THROW((void)pipeline.next(), ErrorException);
  EXPECT_TRUE(stalls.found) << stalls.causes();
  EXPECT_EQ(storage.counts().reads, 0U);
}

// A checkpoint reads the ends of the shards, when the training has all the batches that it needs.
TEST_F(WatchdogTest, SeesThatAStateWaitsForTheStorage) {
  const std::string a = shard("a", 3, 100);
  ManualStorage storage(local_, {.opens = ManualStorage::kAll, .reads = ManualStorage::kAll});
  Stalls stalls;
  stalls.expected =
      "^PipelineState::serialize\\(\\) waits for the storage: reading bytes 0 to 348 of .*/a\\.tfrecord has not been "
      "answered for [0-9.]+ s(, nor have 1 other requests)?$";
  const auto options = [&](std::optional<PipelineState> state = std::nullopt) {
    return StartOptions{.threads = 1,
                        .storage = lend(storage),
                        .state = std::move(state),
                        .watchdog = 0.05,
                        .on_stall = stalls.collect()};
  };
  std::optional<Pipeline> pipeline = records().start(options());
  ASSERT_TRUE(pipeline->next());
  const PipelineState state = pipeline->save();
  EXPECT_EQ(count(*pipeline), 2);
  storage.hold_reads();
  std::string refused;
  stalls.then = [&] {
    try {
      (void)state.serialize();
    } catch (const ErrorException& error) {
      refused = error.what();
    }
    throw ErrorException(ErrorCode::kIo, "given up");
  };
  EXPECT_THROW((void)state.serialize(), ErrorException);
  ASSERT_TRUE(stalls.found) << stalls.causes();
  EXPECT_THAT(refused, HasSubstr("PipelineState::serialize() was called inside the on_stall that it had called"));
  EXPECT_THAT(stalls.found->report,
              ContainsRegex("^nothing has moved for [0-9.]+ s; the caller of PipelineState::serialize\\(\\) has "
                            "waited for [0-9.]+ s\nfiles: 1 open\n"));

  // Nothing is lost, also without the pipeline.
  pipeline.reset();
  stalls.found.reset();
  stalls.then = [&] { storage.release(); };
  std::string other;
  std::string bytes;
  {
    const std::jthread thread([&] { other = state.serialize(); });
    bytes = state.serialize();
  }
  EXPECT_TRUE(stalls.found) << stalls.causes();
  EXPECT_EQ(bytes, other);
  EXPECT_EQ(bytes, state.serialize());

  storage.hold_reads();
  stalls.found.reset();
  stalls.expected = "^start\\(\\) waits for the storage: reading bytes 0 to 348 of ";
  Pipeline resumed = records().start(options(PipelineState::parse(bytes)));
  EXPECT_TRUE(stalls.found) << stalls.causes();
  EXPECT_EQ(count(resumed), 2);
}

TEST_F(WatchdogTest, AStateWhoseReadsAreNeverAnsweredIsAnErrorAndCanGo) {
  const std::string a = shard("a", 3, 100);
  ManualStorage storage(local_, {.opens = ManualStorage::kAll, .reads = ManualStorage::kAll});
  {
    const Pipeline pipeline = records().start({.threads = 1, .storage = lend(storage), .watchdog = 0.05});
    const PipelineState state = pipeline.save();  // before any next(), to which a late worker is a stall as well
    storage.hold_reads();
    testing::internal::CaptureStderr();
    std::string thrown;
    try {
      (void)state.serialize();
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kStalled);
      thrown = error.what();
    }
    EXPECT_THAT(testing::internal::GetCapturedStderr(), StartsWith("millrace: nothing has moved for "));
    EXPECT_THAT(thrown, HasSubstr("PipelineState::serialize() waits for the storage: reading bytes 0 to 348 of "));
  }
  storage.release();  // an answer that nobody waits for any more
}

TEST_F(WatchdogTest, SeesThatTheStartOfACacheOnDiskWaitsForTheStorage) {
  const std::string a = shard("a", 3, 100);
  ManualStorage storage(local_, {.opens = ManualStorage::kAll});
  Stalls stalls;
  stalls.expected = "^start\\(\\) waits for the storage: reading bytes 0 to 348 of ";
  stalls.then = [&] { storage.release(); };
  Pipeline pipeline =
      records()
          .cache({.directory = folder_.path("cache")})
          .start({.threads = 1, .storage = lend(storage), .watchdog = 0.05, .on_stall = stalls.collect()});
  EXPECT_TRUE(stalls.found) << stalls.causes();
  EXPECT_EQ(count(pipeline), 3);
}

TEST_F(WatchdogTest, NamesTheFunctionThatDoesNotReturnAndLosesNothing) {
  Gate gate;
  Stalls stalls;
  stalls.expected =
      "^next\\(\\) waits for 1:map \\(function=\"decode\"\\), which has been running for [0-9.]+ s, 17 elements into "
      "its block$";
  stalls.in_report = {"\n  body: 1:map \\(function=\"decode\"\\), which has been running for ",
                      "ring: 2 of 6 slots taken, 1 ready, not the next one"};
  stalls.then = [&] {
    gate.open();
    throw ErrorException(ErrorCode::kStalled, "told");
  };
  Pipeline pipeline = Dataset::range(0, 100)
                          .map(each("decode",
                                    [&](int64_t value) {
                                      if (value == 17) gate.pass();
                                    }))
                          .start({.threads = 2, .watchdog = 0.2, .on_stall = stalls.collect()});
  EXPECT_THROW((void)pipeline.next(), ErrorException);
  EXPECT_EQ(count(pipeline), 100) << "the exception left next() and nothing else";
  EXPECT_TRUE(stalls.found) << stalls.causes();
}

TEST_F(WatchdogTest, NamesAFunctionInsideANestedInputAndOneThatKeepsTheOnlyWorker) {
  Gate gate;
  Stalls stalls;
  stalls.expected = "\\(function=\"nested\"\\), which has been running for ";
  stalls.in_report = {": chain: inside ", ": chain: due, no worker has come to it yet"};
  stalls.then = [&] { gate.open(); };
  const Dataset nested = Dataset::range(0, 10).map(each("nested", [&](int64_t) { gate.pass(); }));
  const WorkerLimit limit(1);
  Pipeline pipeline = Dataset::interleave({nested, nested}, {.cycle_length = 2})
                          .start({.threads = 1, .watchdog = 0.2, .on_stall = stalls.collect()});
  EXPECT_EQ(count(pipeline), 20);
  EXPECT_TRUE(stalls.found) << stalls.causes();
}

TEST_F(WatchdogTest, NamesAStageThatIsNeverWoken) {
  class Forgetful final : public StageOperator {
   public:
    using StageOperator::StageOperator;
    std::string_view name() const override { return "forgetful"; }
    Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::unknown(); }
    std::unique_ptr<Stage> open(std::vector<OpenStage>, const StageContext&) const override {
      class Never final : public Stage {
        Poll next(Block&) override { return Poll::kPending; }
      };
      return std::make_unique<Never>();
    }
  };
  const Dataset forgetful = Dataset::from_operator({Dataset::range(0, 1)}, [](std::span<const SchemaPtr> inputs) {
    return std::make_shared<const Forgetful>(inputs[0]);
  });
  Stalls stalls;
  stalls.expected = "a stage of segment 0 that answered \"pending\" and was not woken";
  stalls.then = [] { throw ErrorException(ErrorCode::kStalled, "told"); };
  Pipeline pipeline = forgetful.prefetch(1).start({.threads = 2, .watchdog = 0.1, .on_stall = stalls.collect()});
  EXPECT_THROW((void)pipeline.next(), ErrorException);
  EXPECT_TRUE(stalls.found) << stalls.causes();
}

TEST_F(WatchdogTest, TellsAgainWhenTheWaitGoesOnAfterIt) {
  Gate gate;
  int times = 0;
  const auto on_stall = [&](const Stall&) {
    if (++times == 3) gate.open();
  };
  Pipeline pipeline = Dataset::range(0, 1)
                          .map(each("slow", [&](int64_t) { gate.pass(); }))
                          .start({.threads = 1, .watchdog = 0.05, .on_stall = on_stall});
  EXPECT_EQ(count(pipeline), 1);
  EXPECT_GE(times, 3);
}

TEST_F(WatchdogTest, PrintsAndThrowsWhenNothingElseIsAskedFor) {
  Gate gate;
  std::latch entered(1);
  Pipeline pipeline = Dataset::range(0, 1)
                          .map(each("slow",
                                    [&](int64_t) {
                                      entered.count_down();
                                      gate.pass();
                                    }))
                          .start({.threads = 1, .watchdog = 0.05});
  entered.wait();  // or the first report is of a worker that has not come yet
  testing::internal::CaptureStderr();
  std::string thrown;
  try {
    (void)pipeline.next();
  } catch (const ErrorException& error) {
    EXPECT_EQ(error.error().code, ErrorCode::kStalled);
    thrown = error.what();
  }
  const std::string printed = testing::internal::GetCapturedStderr();
  gate.open();
  EXPECT_THAT(thrown, ContainsRegex("^stalled: nothing has moved for [0-9.]+ s: next\\(\\) waits for 1:map"));
  EXPECT_THAT(printed, ContainsRegex("^millrace: nothing has moved for .*next\\(\\) waits for 1:map .*\n$"));
}

/// A plan that runs, and its watchdog, whose looks the test makes itself, when it knows whether something has moved. Of
/// three looks at one count the last one tells of a stall, see `StallTimer`.
class LookedAt final : public Waker {
 public:
  LookedAt(const Dataset& dataset, std::shared_ptr<Storage> storage)
      : storage_(std::move(storage)), plan_(executor_, dataset.plan(), {}) {
    (void)plan_.prepare({.storage = storage_});
    reader_ = plan_.start({.pool = executor_.pool(),
                           .waker = *this,
                           .iteration = {},
                           .lanes = lanes_,
                           .storage = &storage_,
                           .shard_names = std::make_shared<ShardNames>()});
  }
  ~LookedAt() {
    executor_.stop();
    reader_.reset();
    plan_.drop_chains();
    output_.stop();
  }
  LookedAt(const LookedAt&) = delete;
  LookedAt& operator=(const LookedAt&) = delete;

  void wake() noexcept override {
    ++wakes_;
    wakes_.notify_one();
  }
  /// Whether it stays quiet.
  bool look() {
    const int before = stalls_;
    watchdog_.look(now_ns());
    return stalls_ == before;
  }
  /// The number of elements that came; 0: the end.
  size_t next() {
    Block block;
    while (true) {
      const int seen = wakes_;
      const Poll poll = reader_->next(block);
      if (poll == Poll::kEnd) return 0;
      if (poll == Poll::kBlock) return block.num_elements();
      wakes_.wait(seen);
    }
  }
  /// When nothing moves any more, it tells so.
  void look_until_it_barks() {
    while (look()) {
    }
  }

 private:
  Executor executor_{1, int64_t{1} << 30};
  WatchedStorage storage_;
  OutputThread output_;
  InlineLanes lanes_;
  LoweredPlan plan_;
  std::atomic<int> wakes_{0};
  int stalls_ = 0;
  Watchdog watchdog_{1e-9, [this](const Stall&) { ++stalls_; }, plan_, storage_, output_, 1};
  std::unique_ptr<Stage> reader_;
};

/// Functions stop here, each time that they are called, until the test lets them go.
class Stops {
 public:
  void stop() {
    came_.release();
    go_.acquire();
  }
  void wait_for_one() { came_.acquire(); }
  void let_go() { go_.release(); }

 private:
  std::counting_semaphore<> came_{0};
  std::counting_semaphore<> go_{0};
};

// No operator delivers anything while the elements of one block come through the function.
TEST_F(WatchdogTest, IsQuietWhileASlowFunctionComesThroughItsBlock) {
  Stops stops;
  LookedAt plan(Dataset::range(0, 60).map(each("slow", [&](int64_t) { stops.stop(); })), lend(local_));
  for (int i = 0; i < 60; ++i) {
    if (i > 0) stops.let_go();
    stops.wait_for_one();
    EXPECT_TRUE(plan.look()) << i;
  }
  plan.look_until_it_barks();
  stops.let_go();
  EXPECT_EQ(plan.next(), 60U);
}

TEST_F(WatchdogTest, IsQuietWhileASlowPredicateComesThroughItsBlock) {
  Stops stops;
  const RowPredicate never = {"slow", [&](const RowView&) {
                                stops.stop();
                                return false;
                              }};
  LookedAt plan(Dataset::range(0, 60).filter(never), lend(local_));
  for (int i = 0; i < 60; ++i) {
    if (i > 0) stops.let_go();
    stops.wait_for_one();
    EXPECT_TRUE(plan.look()) << i;
  }
  plan.look_until_it_barks();
  stops.let_go();
  EXPECT_EQ(plan.next(), 0U);
}

// One record that takes 60 reads and more.
TEST_F(WatchdogTest, IsQuietWhileASlowStorageBringsAFewBytesAtATime) {
  shard("a", 1, 6000);
  test::InjectingStorage few_bytes(local_, {.max_read_bytes = 100});
  ManualStorage storage(few_bytes, {.opens = ManualStorage::kAll});
  LookedAt plan(records(), lend(storage));
  for (int i = 0; i < 60; ++i) {
    while (!storage.answer_one()) std::this_thread::yield();
    EXPECT_TRUE(plan.look()) << i;
  }
  plan.look_until_it_barks();
  storage.release();
  EXPECT_EQ(plan.next(), 1U);
}

/// 12 blocks of an element, each of which is made when the test lets it.
class BlocksOneByOne final : public StageOperator {
 public:
  BlocksOneByOne(SchemaPtr schema, Stops& stops) : StageOperator(std::move(schema)), stops_(stops) {}
  std::string_view name() const override { return "one_by_one"; }
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::known(12); }
  std::unique_ptr<Stage> open(std::vector<OpenStage>, const StageContext& context) const override {
    class Blocks final : public Stage {
     public:
      Blocks(Block block, Stops& stops) : block_(std::move(block)), stops_(stops) {}
      Poll next(Block& out) override {
        if (++calls_ > 12) return Poll::kEnd;
        stops_.stop();
        out = block_;
        return Poll::kBlock;
      }

     private:
      const Block block_;
      Stops& stops_;
      int calls_ = 0;
    };
    return std::make_unique<Blocks>(Block(schema(), {Column::fixed(context.pool, DType::kInt64, {}, 1)}, 1), stops_);
  }

 private:
  Stops& stops_;
};

// A consumer that waited, was away for as long as it liked while a worker brought a block, and waits again.
TEST_F(WatchdogTest, IsQuietWhileTheConsumerIsAway) {
  Stops stops;
  const SchemaPtr schema = Dataset::range(0, 1).plan()->op->schema();
  LookedAt plan(Dataset::from_operator({}, [&](auto) { return std::make_shared<BlocksOneByOne>(schema, stops); }),
                lend(local_));
  for (int i = 0; i < 12; ++i) {
    EXPECT_TRUE(plan.look()) << i;
    EXPECT_TRUE(plan.look()) << i;
    stops.let_go();
    EXPECT_EQ(plan.next(), 1U);
  }
  EXPECT_EQ(plan.next(), 0U);
  plan.look_until_it_barks();
}

TEST_F(WatchdogTest, RefusesALimitThatIsNone) {
  for (const double seconds : {-1.0, 1e7, std::numeric_limits<double>::quiet_NaN()}) {
    try {
      (void)Dataset::range(0, 1).start({.threads = 1, .watchdog = seconds});
      FAIL() << seconds;
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr("start: watchdog is "));
    }
  }
}

/// A pipeline of two segments, [0:source] -> [1:map] and [2:batch].
StalledPipeline two_segments(const StageStatistics& map) {
  SegmentStates first{.number = 0, .chain = {"0:source"}, .body = {"1:map"}, .states = {SegmentState{.slots = 4}}};
  SegmentStates second{.number = 1, .chain = {"2:batch"}, .inputs = {0}, .states = {SegmentState{.slots = 4}}};
  first.states[0].bodies = {{.map = &map, .ns = 5'000'000'000}};
  first.states[0].taken = 4;
  first.states[0].ready = 3;
  second.states[0].chain = SegmentState::Chain::kWaitsForInput;
  return {.still_seconds = 5, .waiting_seconds = 6, .threads = 2, .segments = {first, second}};
}

TEST(StallReport, FollowsTheWaitsFromTheCallerToTheCause) {
  StageStatistics map;
  map.name = "1:map";
  StalledPipeline pipeline = two_segments(map);
  EXPECT_EQ(describe_stall(pipeline).cause,
            "next() waits for segment 1, which waits for 1:map, which has been running for 5.0 s");
  // The reader of segment 0 has a block that it does not take.
  pipeline.segments[0].states[0].next_is_ready = true;
  EXPECT_THAT(describe_stall(pipeline).cause,
              HasSubstr("segment 0 has blocks ready and its reader was not woken, a defect"));
  // A body is due while another one has the only worker.
  pipeline.segments[1].states[0] = {.slots = 4, .taken = 1};
  EXPECT_EQ(
      describe_stall(pipeline).cause,
      "next() waits for a worker: segment 1 is due and no thread has come to it; what runs is 1:map, which has been "
      "running for 5.0 s");
  pipeline.segments[0].states[0].bodies.clear();
  EXPECT_THAT(describe_stall(pipeline).cause, HasSubstr("the process's workers are busy elsewhere"));
  pipeline.segments[1].states[0] = {};
  EXPECT_THAT(describe_stall(pipeline).cause, HasSubstr("segment 1 neither runs nor waits, a defect"));
}

TEST(StallReport, GroupsLanesThatAreAlikeAndListsAFewFiles) {
  StalledPipeline pipeline;
  SegmentStates lanes{.number = 0, .chain = {"0:read"}, .lanes = true};
  for (int64_t i = 0; i < 10; ++i) {
    lanes.states.push_back({.chain = i < 9 ? SegmentState::Chain::kWaitsForInput : SegmentState::Chain::kIdle,
                            .chain_ns = i * 1'000'000'000,
                            .slots = 2});
  }
  pipeline.segments = {lanes};
  for (int i = 0; i < 40; ++i) pipeline.files.push_back({.path = "shard-" + std::to_string(i)});
  pipeline.files[0] = {
      .path = "slow", .doing = WatchedFileState::Doing::kReading, .begin = 10, .end = 30, .ns = 8'000'000'000};
  const Stall stall = describe_stall(pipeline);
  EXPECT_THAT(stall.report,
              HasSubstr("  lanes 0-8: chain: waits for input for 8.0 s; ring: 0 of 2 slots taken, 0 ready\n"
                        "  lane 9: chain: nobody asks for more; "));
  EXPECT_THAT(stall.report, HasSubstr("files: 40 open\n  reading bytes 10 to 30 of slow, for 8.0 s\n"
                                      "  shard-1, byte 0, nothing in flight\n"));
  EXPECT_THAT(stall.report, HasSubstr("  and 8 more\n"));
  EXPECT_EQ(stall.cause,
            "next() waits for the storage: reading bytes 10 to 30 of slow has not been answered for 8.0 s");
}

}  // namespace
}  // namespace millrace::watchdog_test
