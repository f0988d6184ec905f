// cache with a directory, and snapshot.
#include "millrace/ops/keep/persisted_elements.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/folder_lock.h"
#include "millrace/formats/tfrecord/frame.h"
#include "millrace/formats/tfrecord/writer.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/support/operator_chain.h"
#include "tests/support/temporary_folder.h"

namespace millrace::persisted_elements_test {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr size_t kRecordBytes = 20;

void write_shard(const std::string& path, int count, char of = 'a') {
  RecordWriter writer(path);
  for (int i = 0; i < count; ++i) writer.write(std::string(kRecordBytes, of));
  writer.close();
}

void damage_records(const std::string& path, std::initializer_list<size_t> records) {
  std::string bytes = test::read_file(path);
  for (const size_t record : records) bytes[record * (kRecordBytes + kFrameBytes) + kFrameHeaderBytes + 2] ^= 1;
  test::write_file(path, bytes);
}

// 100 records, of which number 50 is damaged; its path.
std::string write_damaged_shard(const test::TemporaryFolder& folder) {
  std::string path = folder.path("a.tfrecord");
  write_shard(path, 100);
  damage_records(path, {50});
  return path;
}

std::vector<std::string> rest(Pipeline& pipeline) {
  std::vector<std::string> elements;
  while (std::optional<Batch> batch = pipeline.next()) {
    elements.push_back(fmt::format("{} in epoch {}", test::print_element(batch->block(), 0), batch->epoch()));
  }
  return elements;
}

std::vector<std::string> run(const Dataset& dataset, const StartOptions& options = {.threads = 2}) {
  Pipeline pipeline = dataset.start(options);
  return rest(pipeline);
}

std::string error_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const ErrorException& exception) {
    return exception.what();
  }
  return "none";
}

// Its elements, then its error, or "none".
std::vector<std::string> outcome(const Dataset& dataset, int threads) {
  std::vector<std::string> elements;
  Pipeline pipeline = dataset.start({.threads = threads});
  elements.push_back(error_of([&] {
    while (const auto batch = pipeline.next()) elements.push_back(test::print_element(batch->block(), 0));
  }));
  return elements;
}

bool throw_error() { throw std::runtime_error("no"); }

using Keep = Dataset (*)(const Dataset&, const std::string&);

struct Kind {
  const char* name;
  Keep keep;
};

class PersistedElementsTest : public ::testing::TestWithParam<Kind> {
 protected:
  // Shuffled numbers, each calculated by a function that counts how often it is called.
  Dataset numbers(int64_t count) const {
    return Dataset::range(0, count)
        .shuffle(100, {.seed = 5})
        .map({.name = "counted",
              .writes = {{.name = "text", .dtype = DType::kBytes, .shape = {}}},
              .function = [this](const RowView& row, RowWriter& out) {
                calls_.fetch_add(1);
                out.set("text", std::to_string(row.value<int64_t>("value")));
              }});
  }
  Dataset keep(const Dataset& input) const { return GetParam().keep(input, path_); }
  // Files of a folder by name, and how often functions were called since the last time.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : test::files_below(path_)) names.push_back(name);
    return names;
  }
  int64_t calls() { return calls_.exchange(0); }

  mutable std::atomic<int64_t> calls_{0};
  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.path("kept");
  const WorkerLimit limit_{8};
};

INSTANTIATE_TEST_SUITE_P(
    , PersistedElementsTest,
    ::testing::Values(Kind{"cache",
                           [](const Dataset& in, const std::string& path) { return in.cache({.directory = path}); }},
                      Kind{"snapshot", [](const Dataset& in, const std::string& path) { return in.snapshot(path); }}),
    [](const auto& kind) { return kind.param.name; });

TEST_P(PersistedElementsTest, LaterEpochsAndLaterRunsAreReadAndGiveTheSame) {
  const std::vector<std::string> expected = run(numbers(5000).cache().repeat(3));
  calls();
  EXPECT_EQ(run(keep(numbers(5000)).repeat(3)), expected);
  EXPECT_EQ(calls(), 5000);
  for (const int threads : {1, 8}) EXPECT_EQ(run(keep(numbers(5000)).repeat(3), {.threads = threads}), expected);
  EXPECT_EQ(calls(), 0);
}

TEST_P(PersistedElementsTest, WhatIsReadIsShownInStatistics) {
  run(keep(numbers(2000)));
  Pipeline pipeline = keep(numbers(2000)).start({.threads = 2});
  rest(pipeline);
  int64_t read = 0;
  for (const StageReport& stage : pipeline.stats().stages) {
    if (stage.name.ends_with(std::string(GetParam().name) + ".read")) read = stage.rows;
  }
  EXPECT_EQ(read, 2000);
}

TEST_P(PersistedElementsTest, ARunThatStopsEarlyKeepsNothing) {
  {
    Pipeline pipeline = keep(numbers(30'000)).start({.threads = 2});  // more than runs ahead of what is taken
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(pipeline.next());
  }
  EXPECT_THAT(names(), SizeIs(0));
  EXPECT_THAT(run(keep(numbers(5000)).take(1000).repeat(2)), SizeIs(2000));
  EXPECT_THAT(names(), SizeIs(0));
  EXPECT_THAT(run(keep(numbers(5000))), SizeIs(5000));
  EXPECT_THAT(names(), SizeIs(2));
}

// Of numbers whose count nobody knows before they have been read, and of those whose count is known.
TEST_P(PersistedElementsTest, IsWrittenWhenItsLastElementWasTakenThoughNobodyAskedForTheEnd) {
  constexpr int64_t kCount = 3000;
  const auto uncounted = [this] {
    return numbers(kCount).filter({.name = "all", .keep = [](const RowView&) { return true; }});
  };
  const auto other = [] { return Dataset::range(0, kCount, 1, "other"); };
  using Make = std::function<Dataset(const Dataset&)>;
  const Make uses[] = {
      [](const Dataset& kept) { return kept.take(kCount); },
      [](const Dataset& kept) { return kept.take(kCount).repeat(2); },
      [](const Dataset& kept) { return kept.shuffle(50, {.seed = 1}).take(kCount); },
      [](const Dataset& kept) { return kept.repeat().take(kCount); },
      [](const Dataset& kept) { return kept.take(kCount + 1); },
      [](const Dataset& kept) { return kept.prefetch(2).batch(10).take(kCount / 10); },
      [](const Dataset& kept) { return kept.batch(7, {.drop_remainder = true}).take(kCount / 7); },
      [](const Dataset& kept) { return kept.batch(7, {.drop_remainder = true}); },
      [](const Dataset& kept) { return kept.shard(2, 0).take(kCount / 2); },
      [](const Dataset& kept) { return kept.shard(2, 1); },
      [&](const Dataset& kept) {
        return Dataset::zip({kept, other()});
      },
      [&](const Dataset& kept) {
        return Dataset::zip({other(), kept});
      },
      [&](const Dataset& kept) {
        return Dataset::zip({other(), kept}).take(kCount);
      },
      [](const Dataset& kept) {
        return kept.take_while({.name = "all", .keep = [](const RowView&) { return true; }}).take(kCount);
      },
  };
  for (const bool counted : {true, false}) {
    const Dataset input = counted ? numbers(kCount) : uncounted();
    for (size_t use = 0; use < std::size(uses); ++use) {
      SCOPED_TRACE(fmt::format("{} {}", use, counted ? "counted" : "not counted"));
      std::filesystem::remove_all(path_);
      const std::vector<std::string> expected = run(uses[use](input.cache()));
      calls();
      testing::internal::CaptureStderr();
      EXPECT_EQ(run(uses[use](keep(input)), {.threads = use % 2 == 0 ? 1 : 8}), expected);
      EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
      EXPECT_EQ(calls(), kCount);
      EXPECT_THAT(names(), SizeIs(2));
      EXPECT_EQ(run(uses[use](keep(input))), expected);
      EXPECT_EQ(calls(), 0);
    }
  }
}

TEST_P(PersistedElementsTest, IsWrittenWhenACallerHasTakenTheLastOfACertainNumber) {
  {
    Pipeline pipeline = keep(numbers(3000)).start({.threads = 2});
    for (int i = 0; i < 3000; ++i) ASSERT_TRUE(pipeline.next());
  }
  EXPECT_THAT(names(), SizeIs(2));
}

// However many elements are taken before the pipeline goes: none, or all that were promised.
TEST_P(PersistedElementsTest, IsNotWrittenWhereThereAreMoreElementsThanWerePromised) {
  const std::string shard = folder_.path("numbers-7.tfrecord");
  write_shard(shard, 10);
  const Dataset promises[] = {numbers(3000).assert_cardinality(7),
                              numbers(3000).assert_cardinality(0),
                              numbers(3000).assert_cardinality(1024),  // where a block ends
                              numbers(3000).assert_cardinality(2048),
                              Dataset::tfrecord(Shards::files({shard}).counts_from("numbers-{count}.tfrecord")),
                              numbers(3000).assert_cardinality(7).batch(7),
                              numbers(3000).assert_cardinality(6).batch(4)};
  for (const Dataset& promised : promises) {
    const int64_t count = promised.cardinality().count();
    for (const int64_t taken : {int64_t{0}, count}) {
      for (const int threads : {1, 4}) {
        SCOPED_TRACE(fmt::format("{} of {}, {} threads", taken, count, threads));
        (void)error_of([&] {  // the last element of the last may be the error
          Pipeline pipeline = keep(promised).start({.threads = threads});
          for (int64_t i = 0; i < taken; ++i) ASSERT_TRUE(pipeline.next());
        });
        EXPECT_THAT(names(), SizeIs(0));
        const std::vector<std::string> expected = outcome(promised, threads);
        EXPECT_THAT(expected.back(), StartsWith("cardinality"));
        EXPECT_EQ(outcome(keep(promised), threads), expected);
      }
    }
  }
}

// The promise is a part of what was kept, also where the number of elements does not follow from it.
TEST_P(PersistedElementsTest, WhatWasWrittenWithoutAPromiseIsNotReadForOne) {
  const std::string shard = folder_.path("numbers-7.tfrecord");
  write_shard(shard, 10);
  const auto some = [](const Shards& shards) {
    return Dataset::tfrecord(shards).filter({.name = "all", .keep = [](const RowView&) { return true; }});
  };
  EXPECT_THAT(run(keep(some(Shards::files({shard})))), SizeIs(10));
  EXPECT_THAT(names(), SizeIs(2));
  const Dataset promised = some(Shards::files({shard}).counts_from("numbers-{count}.tfrecord"));
  EXPECT_THAT(outcome(promised, 2).back(), StartsWith("cardinality"));
  EXPECT_EQ(outcome(keep(promised), 2), outcome(promised, 2));
}

// With notes of damage after its last element, of which none is an element.
TEST_P(PersistedElementsTest, IsWrittenWhenTheLastElementBeforeDamageWasTaken) {
  constexpr int kCount = 1024;  // so that the notes are in blocks of their own
  const std::string shard = folder_.path("a.tfrecord");
  write_shard(shard, kCount + 2);
  damage_records(shard, {kCount, kCount + 1});
  const Dataset records = Dataset::tfrecord(Shards::files({shard}), {.damage = {.action = DamagePolicy::kSkip}});
  const Dataset taken[] = {keep(records.assert_cardinality(kCount)), keep(records).take(kCount),
                           keep(records.assert_cardinality(kCount)).take(kCount)};
  for (const Dataset& dataset : taken) {
    for (const int threads : {1, 4}) {
      std::filesystem::remove_all(path_);
      {
        Pipeline pipeline = dataset.start({.threads = threads});
        for (int i = 0; i < kCount; ++i) ASSERT_TRUE(pipeline.next());
        if (dataset.cardinality().is_unknown()) {
          EXPECT_FALSE(pipeline.next());
        }
      }
      EXPECT_THAT(names(), SizeIs(2)) << dataset.explain() << threads;
      Pipeline pipeline = keep(records.assert_cardinality(kCount)).start({.threads = threads});
      EXPECT_THAT(rest(pipeline), SizeIs(kCount));
    }
  }
}

// Passes on what comes, and throws at its end.
class FailsAtItsEnd final : public StageOperator {
 public:
  using StageOperator::StageOperator;
  std::string_view name() const override { return "fails_at_its_end"; }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override { return inputs[0]; }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override {
    return std::make_unique<FailingStage>(open_input(inputs[0], context));
  }

 private:
  class FailingStage final : public Stage {
   public:
    explicit FailingStage(std::unique_ptr<Stage> input) : input_(std::move(input)) {}
    Poll next(Block& out) override {
      const Poll poll = input_->next(out);
      if (poll == Poll::kEnd) throw ErrorException(ErrorCode::kIo, "no end");
      return poll;
    }

   private:
    const std::unique_ptr<Stage> input_;
  };
};

TEST_P(PersistedElementsTest, GivesAllElementsBeforeWhatItsInputThrows) {
  for (const int64_t count : {10, 1024, 3000}) {
    const Dataset failing = Dataset::from_operator({numbers(count)}, [](std::span<const SchemaPtr> inputs) {
      return std::make_shared<const FailsAtItsEnd>(inputs[0]);
    });
    for (const int threads : {1, 4}) {
      const std::vector<std::string> expected = outcome(failing, threads);
      ASSERT_THAT(expected, SizeIs(count + 1));
      EXPECT_THAT(expected.back(), StartsWith("io: no end"));
      EXPECT_EQ(outcome(keep(failing), threads), expected);
      EXPECT_THAT(names(), SizeIs(0));
    }
  }
}

TEST_P(PersistedElementsTest, WhatIsNotWrittenIsNamedAtTheEndOfTheRun) {
  const auto warning = [this](const Dataset& input, const std::function<Dataset(const Dataset&)>& use,
                              const StartOptions& options = {.threads = 2}) {
    testing::internal::CaptureStderr();
    run(use(keep(input)), options);
    return testing::internal::GetCapturedStderr();
  };
  const auto all = [](const Dataset& kept) { return kept; };
  const auto some = [](const Dataset& kept) { return kept.take(1000); };
  const std::string begin = fmt::format("millrace: {} '{}", GetParam().name, path_);
  EXPECT_THAT(warning(numbers(5000), some), AllOf(StartsWith(begin), HasSubstr("' is not written: "),
                                                  HasSubstr("when its input is read to the end\n")));
  EXPECT_THAT(names(), SizeIs(0));
  EXPECT_THAT(warning(numbers(3000), all, {.threads = 2, .ordered = false}), HasSubstr("(ordered = false)\n"));
  const auto failing = [](const RowView& row) -> bool { return row.value<int64_t>("value") != 7 || throw_error(); };
  EXPECT_THAT(warning(numbers(3000).filter({.name = "fails", .keep = failing}),
                      [](const Dataset& kept) { return kept.ignore_errors(); }),
              HasSubstr("is not written: one of its elements is an error\n"));
  {
    Pipeline begun = keep(numbers(30'000)).start({.threads = 2});  // more than runs ahead of what is taken
    ASSERT_TRUE(begun.next());
    const PipelineState state = begun.save();
    EXPECT_THAT(warning(numbers(30'000), all, {.threads = 2, .state = state}), HasSubstr("went on from a state"));
  }
  EXPECT_EQ(warning(numbers(3000), all), "");
  EXPECT_EQ(warning(numbers(3000), some), "") << "it is read";
}

// What is asked for beyond the elements wanted is nothing to the stream.
TEST_P(PersistedElementsTest, WhatComesAfterTheElementsTakenChangesNothing) {
  const auto failing = [](const RowView& row) -> bool { return row.value<int64_t>("value") < 50 || throw_error(); };
  const Dataset input = Dataset::range(0, 3000).filter({.name = "fails", .keep = failing});
  EXPECT_EQ(run(keep(input).take(50)), run(input.take(50)));
  // It ends in the same place, and goes on from there.
  const Dataset taken = keep(numbers(3000)).take(1000).repeat(2);
  const std::vector<std::string> expected = run(numbers(3000).cache().take(1000).repeat(2));
  for (const size_t place : {999, 1000, 1001, 2000}) {
    Pipeline pipeline = taken.start({.threads = 2});
    for (size_t i = 0; i < place; ++i) ASSERT_TRUE(pipeline.next());
    Pipeline resumed = taken.start({.threads = 2, .state = PipelineState::parse(pipeline.save().serialize())});
    EXPECT_EQ(rest(resumed),
              (std::vector<std::string>(expected.begin() + static_cast<ptrdiff_t>(place), expected.end())));
  }
}

TEST_P(PersistedElementsTest, GoesOnFromAnywhereWithTheFolderAndWithoutIt) {
  const Dataset dataset = keep(numbers(3000)).repeat(3);
  const std::vector<std::string> all = run(numbers(3000).cache().repeat(3));
  // In the epoch that writes, and in those that read.
  const std::vector<size_t> places{0, 1, 700, 1024, 2999, 3000, 3001, 4500, 6000, 8999, 9000};
  std::vector<std::string> states;
  {
    Pipeline pipeline = dataset.start({.threads = 2});
    size_t taken = 0;
    for (const size_t place : places) {
      for (; taken < place; ++taken) ASSERT_TRUE(pipeline.next());
      states.push_back(pipeline.save().serialize());
      EXPECT_LT(states.back().size(), 600u);
    }
  }
  const auto resumed = [&](size_t i, int threads) {
    Pipeline pipeline = dataset.start({.threads = threads, .state = PipelineState::parse(states[i])});
    // A second time, a little later.
    std::vector<std::string> elements;
    for (int taken = 0; taken < 5; ++taken) {
      std::optional<Batch> batch = pipeline.next();
      if (!batch) return elements;
      elements.push_back(fmt::format("{} in epoch {}", test::print_element(batch->block(), 0), batch->epoch()));
    }
    Pipeline again = dataset.start({.threads = 3, .state = PipelineState::parse(pipeline.save().serialize())});
    for (std::string& element : rest(again)) elements.push_back(std::move(element));
    return elements;
  };
  for (const bool whole : {true, false}) {
    for (size_t i = 0; i < places.size(); ++i) {
      if (!whole) std::filesystem::remove_all(path_);
      calls();
      const std::vector<std::string> expected(all.begin() + static_cast<ptrdiff_t>(places[i]), all.end());
      EXPECT_TRUE(resumed(i, i % 2 == 0 ? 1 : 8) == expected) << places[i] << (whole ? " with the folder" : " without");
      EXPECT_TRUE(!whole || calls() == 0) << places[i];
    }
  }
}

TEST_P(PersistedElementsTest, OtherElementsAreNotTakenForThese) {
  run(keep(numbers(1000)));
  const std::vector<std::string> other = run(numbers(1001));
  calls();
  EXPECT_EQ(run(keep(numbers(1001))), other);
  EXPECT_EQ(calls(), 1001);
  EXPECT_EQ(run(keep(numbers(1001))), other);
  EXPECT_EQ(calls(), 0);
  run(keep(numbers(1000)));
  // A snapshot keeps both, a cache the last one.
  EXPECT_EQ(calls(), std::string(GetParam().name) == "snapshot" ? 0 : 1000);
  EXPECT_THAT(names(), SizeIs(std::string(GetParam().name) == "snapshot" ? 4 : 2));
}

TEST_P(PersistedElementsTest, AnotherContentOfAFileIsAnotherDataset) {
  const std::string path = folder_.path("a.tfrecord");
  const auto write = [&](char of) { write_shard(path, 10, of); };
  write('a');
  const auto dataset = [&] { return keep(Dataset::tfrecord(Shards::files({path}))); };
  EXPECT_THAT(run(dataset()), Each(HasSubstr("aaa")));
  write('b');
  EXPECT_THAT(run(dataset()), Each(HasSubstr("bbb")));
  EXPECT_THAT(run(dataset()), Each(HasSubstr("bbb")));
}

TEST_P(PersistedElementsTest, AnotherContentOfAFileThatANestedDatasetOpensIsNoticed) {
  const std::string path = folder_.path("a.tfrecord");
  const auto write = [&](char of) { write_shard(path, 10, of); };
  const std::string saved = folder_.path("saved");
  const std::vector<FeatureSpec> gives{{.name = "record", .dtype = DType::kBytes, .shape = {}}};
  const auto records = [&](const RowView&) { return Dataset::tfrecord(Shards::files({path})); };
  const auto loaded = [&](const RowView&) { return Dataset::load(saved); };
  write('a');
  records(RowView(Block(), 0)).save(saved);
  const DatasetFunction opens{.name = "opens", .gives = gives, .make = records};
  const DatasetFunction loads{.name = "loads", .gives = gives, .make = loaded};
  const std::function<Dataset()> datasets[] = {
      [&] { return keep(numbers(2).flat_map(opens)); },
      [&] { return keep(numbers(2).interleave(opens, {.cycle_length = 2})); },
      [&] { return keep(numbers(2).flat_map(loads)); },
      // Through what another one keeps.
      [&] { return keep(GetParam().keep(numbers(2).flat_map(opens), folder_.path("inner")).take(15)); },
  };
  for (const std::function<Dataset()>& dataset : datasets) {
    write('a');
    records(RowView(Block(), 0)).save(saved, {.overwrite = true});
    run(dataset());
    calls();
    EXPECT_THAT(run(dataset()), Each(HasSubstr("aaa")));
    EXPECT_EQ(calls(), 0);
    write('b');
    records(RowView(Block(), 0)).save(saved, {.overwrite = true});
    EXPECT_THAT(run(dataset()), Each(HasSubstr("bbb")));
    EXPECT_EQ(calls(), 2);
    EXPECT_THAT(run(dataset()), Each(HasSubstr("bbb")));
    EXPECT_EQ(calls(), 0);
  }
  // A file that is not there any more does not keep what came from it.
  std::filesystem::remove(path);
  EXPECT_THAT(error_of([&] { run(datasets[0]()); }), HasSubstr("a.tfrecord"));
}

TEST_P(PersistedElementsTest, AFunctionWithoutANameIsRefused) {
  const Dataset one = Dataset::range(0, 3);
  const auto refused = [&](const Dataset& input, const std::string& method) {
    EXPECT_THAT(error_of([&] { (void)keep(input.take(2)); }),
                HasSubstr(fmt::format("{}: the function of {} before it has no name", GetParam().name, method)));
    EXPECT_NO_THROW((void)input.cache());
  };
  refused(one.map(RowFunction{.name = "", .writes = {}, .function = [](const RowView&, RowWriter&) {}}), "map");
  refused(
      one.map(BlockFunction{
          .name = "", .schema = one.plan()->op->schema(), .function = [](Block block, BufferPool&) { return block; }}),
      "map");
  refused(one.filter(RowPredicate{.name = "", .keep = [](const RowView&) { return true; }}), "filter");
  refused(one.group_by_window({.name = "", .key = [](const RowView&) { return int64_t{0}; }}, 2), "group_by_window");
  refused(one.group_by_window({.name = "zero", .key = [](const RowView&) { return int64_t{0}; }},
                              WindowSize::by_key("", [](int64_t) { return int64_t{2}; })),
          "group_by_window");
  EXPECT_NO_THROW(
      (void)keep(one.group_by_window({.name = "zero", .key = [](const RowView&) { return int64_t{0}; }}, 2)));
}

TEST_P(PersistedElementsTest, AnOrderByChanceIsNotTakenForTheOrder) {
  std::vector<std::string> paths;
  for (const char* name : {"a.tfrecord", "b.tfrecord"}) {
    RecordWriter writer(paths.emplace_back(folder_.path(name)));
    for (int i = 0; i < 10; ++i) writer.write(fmt::format("{} {}", name, i));
    writer.close();
  }
  const auto counted = [&](const Dataset& dataset) {
    return keep(dataset.map(
        {.name = "counted", .writes = {}, .function = [this](const RowView&, RowWriter&) { calls_.fetch_add(1); }}));
  };
  const auto records = [&](bool ordered) {
    return counted(Dataset::tfrecord(Shards::files(paths), {.cycle_length = 2, .ordered = ordered}));
  };
  const auto mixed = [&](bool ordered) {
    return counted(
        Dataset::interleave({Dataset::range(0, 10), Dataset::range(0, 10)}, {.cycle_length = 2, .ordered = ordered}));
  };
  for (const std::function<Dataset(bool)>& dataset : {std::function<Dataset(bool)>(records), {mixed}}) {
    std::filesystem::remove_all(path_);
    run(dataset(false));
    calls();
    run(dataset(false));
    EXPECT_EQ(calls(), 0);
    run(dataset(true));
    EXPECT_EQ(calls(), 20);
  }
}

TEST_P(PersistedElementsTest, ARunWithoutOrderReadsAndWritesNothing) {
  const StartOptions unordered{.threads = 4, .ordered = false};
  EXPECT_THAT(run(keep(numbers(3000)).repeat(2), unordered), SizeIs(6000));
  EXPECT_EQ(calls(), 6000);
  EXPECT_THAT(names(), SizeIs(0));
  const std::vector<std::string> expected = run(keep(numbers(3000)));
  EXPECT_EQ(calls(), 3000);
  EXPECT_THAT(run(keep(numbers(3000)), unordered), ::testing::UnorderedElementsAreArray(expected));
  EXPECT_EQ(calls(), 0);
}

TEST_P(PersistedElementsTest, WhatWasLeftOutIsMissedByARunThatLeavesNothingOut) {
  const std::string path = write_damaged_shard(folder_);
  const auto dataset = [&](DamagePolicy::Action action) {
    return keep(Dataset::tfrecord(Shards::files({path}), {.damage = {.action = action}}));
  };
  EXPECT_THAT(run(dataset(DamagePolicy::kSkip)), SizeIs(99));
  EXPECT_THAT(error_of([&] { run(dataset(DamagePolicy::kFail)); }), HasSubstr("payload_crc"));
}

TEST_P(PersistedElementsTest, AnEpochWithAnErrorIsNotKept) {
  const auto failing = [&](int64_t at) {
    return keep(Dataset::range(0, 2000).map({.name = "fails",
                                             .writes = {{.name = "x", .dtype = DType::kInt64, .shape = {}}},
                                             .function = [at](const RowView& row, RowWriter& out) {
                                               if (row.value<int64_t>("value") == at) throw std::runtime_error("no");
                                               out.set<int64_t>("x", 1);
                                             }}));
  };
  for (int times = 0; times < 2; ++times) {
    EXPECT_THAT(run(failing(1500).ignore_errors().repeat(2)), SizeIs(2 * 1999));
    EXPECT_THAT(names(), SizeIs(0));
  }
  EXPECT_THAT(error_of([&] { run(failing(1500)); }), HasSubstr("user_function"));
}

TEST_P(PersistedElementsTest, NotesOfDamageAreKeptAndToldInTheFirstEpochOfEachRun) {
  const std::string path = write_damaged_shard(folder_);
  const Dataset records = Dataset::tfrecord(Shards::files({path}), {.damage = {.action = DamagePolicy::kSkip}});
  const auto told = [](const Dataset& dataset, std::optional<PipelineState> state = std::nullopt) {
    std::vector<uint64_t> places;
    const size_t before = state ? static_cast<size_t>(state->num_delivered()) : 0;
    Pipeline pipeline =
        dataset.start({.threads = 2, .state = std::move(state), .on_skip = [&](const SkippedRegion& region) {
                         places.push_back(region.first_record);
                       }});
    EXPECT_THAT(rest(pipeline), SizeIs(3 * 99 - before));
    EXPECT_EQ(pipeline.skipped().counts.records, 1u);
    return places;
  };
  for (int times = 0; times < 2; ++times) EXPECT_THAT(told(keep(records).repeat(3)), ElementsAre(50));
  EXPECT_THAT(names(), SizeIs(2));
  // On from within each epoch, with the folder and without it, the same is left.
  const Dataset dataset = keep(records).repeat(3);
  for (const size_t place : {10, 60, 99, 109, 149, 160, 198, 297}) {
    Pipeline pipeline = dataset.start({.threads = 2});
    for (size_t i = 0; i < place; ++i) ASSERT_TRUE(pipeline.next());
    const std::string state = pipeline.save().serialize();
    for (const bool whole : {true, false}) {
      if (!whole) std::filesystem::remove_all(path_);
      EXPECT_THAT(told(dataset, PipelineState::parse(state)), SizeIs(place <= 50 ? 1 : 0)) << place;
    }
  }
}

TEST_P(PersistedElementsTest, TheSecondOfTwoPipelinesCalculatesUntilTheFirstHasWritten) {
  constexpr int64_t kCount = 30'000;  // more than runs ahead of what is taken
  const std::vector<std::string> expected = run(numbers(kCount).cache().repeat(3));
  calls();
  Pipeline first = keep(numbers(kCount)).repeat(2).start({.threads = 2});
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(first.next());
  Pipeline second = keep(numbers(kCount)).repeat(3).start({.threads = 2});
  std::vector<std::string> elements;
  for (int i = 0; i < 100; ++i) {
    elements.push_back(fmt::format("{} in epoch 0", test::print_element(second.next()->block(), 0)));
  }
  EXPECT_THAT(rest(first), SizeIs(2 * kCount - 100));
  for (std::string& element : rest(second)) elements.push_back(std::move(element));
  EXPECT_TRUE(elements == expected);
  EXPECT_THAT(names(), SizeIs(2));
  // Each calculated one epoch: the second epoch of the second is read already.
  EXPECT_EQ(calls(), 2 * kCount);
}

TEST_P(PersistedElementsTest, WhoReadsKeepsTheFilesThoughAnotherDatasetIsWrittenToTheFolder) {
  run(keep(numbers(5000)));
  const std::vector<std::string> expected = run(numbers(5000).cache().repeat(3));
  Pipeline reader = keep(numbers(5000)).repeat(3).start({.threads = 2});
  std::vector<std::string> elements;
  for (int i = 0; i < 100; ++i) {
    elements.push_back(fmt::format("{} in epoch 0", test::print_element(reader.next()->block(), 0)));
  }
  calls();
  const std::vector<std::string> other = run(keep(numbers(4000)));
  EXPECT_EQ(run(keep(numbers(4000))), other);
  EXPECT_EQ(calls(), 4000);
  for (std::string& element : rest(reader)) elements.push_back(std::move(element));
  EXPECT_TRUE(elements == expected);
  EXPECT_EQ(calls(), 0);
  // A snapshot keeps both. Of a cache the old files go with the next run, when nobody reads them any more.
  const size_t kept = std::string(GetParam().name) == "snapshot" ? 4 : 2;
  EXPECT_THAT(names(), SizeIs(4 - (kept == 4 ? 0 : 1)));
  { const Pipeline gone = std::move(reader); }
  EXPECT_EQ(run(keep(numbers(4000))), other);
  EXPECT_THAT(names(), SizeIs(kept));
}

TEST_P(PersistedElementsTest, WhoWroteReadsOnThoughAnotherDatasetIsWrittenToTheFolder) {
  const std::vector<std::string> expected = run(numbers(5000).cache().repeat(3));
  calls();
  Pipeline writer = keep(numbers(5000)).repeat(3).start({.threads = 2});
  std::vector<std::string> elements;
  for (int i = 0; i < 5100; ++i) {
    const std::optional<Batch> batch = writer.next();
    elements.push_back(fmt::format("{} in epoch {}", test::print_element(batch->block(), 0), batch->epoch()));
  }
  run(keep(numbers(4000)));
  run(keep(numbers(4000)));
  EXPECT_EQ(calls(), 9000);
  for (std::string& element : rest(writer)) elements.push_back(std::move(element));
  EXPECT_TRUE(elements == expected);
  EXPECT_EQ(calls(), 0);
}

TEST_P(PersistedElementsTest, ARunThatEndedEarlyLeavesTheWritingToOthers) {
  constexpr int64_t kCount = 30'000;  // more than runs ahead of what is taken
  const auto split = [](const Dataset& base) { return Dataset::concatenate({base.take(100), base.skip(100)}); };
  const Dataset base = keep(numbers(kCount));
  const std::vector<std::string> expected = run(split(numbers(kCount)));
  EXPECT_TRUE(run(split(base)) == expected);
  EXPECT_THAT(names(), SizeIs(2));
  calls();
  EXPECT_TRUE(run(split(base)) == expected);
  EXPECT_LT(calls(), kCount);
  // Another pipeline that has given up, and is still there.
  std::filesystem::remove_all(path_);
  Pipeline early = base.take(100).start({.threads = 2});
  EXPECT_THAT(rest(early), SizeIs(100));
  // It gives up on a thread of its own, when it likes.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (names().size() < 2 && std::chrono::steady_clock::now() < deadline) EXPECT_THAT(run(base), SizeIs(kCount));
  EXPECT_THAT(names(), SizeIs(2));
}

TEST_P(PersistedElementsTest, ARunWithoutOrderLeavesTheWritingToOthers) {
  // When its second epoch looks at the folder is its own affair, so many times.
  for (int i = 0; i < 30; ++i) {
    std::filesystem::remove_all(path_);
    Pipeline unordered = keep(numbers(3000)).repeat(2).start({.threads = 2, .ordered = false});
    ASSERT_TRUE(unordered.next());
    EXPECT_THAT(run(keep(numbers(3000))), SizeIs(3000));
    EXPECT_THAT(names(), SizeIs(2));
  }
}

TEST_P(PersistedElementsTest, AFolderThatSomebodyHasLockedIsNotWritten) {
  std::filesystem::create_directory(path_);
  run(keep(numbers(10)));
  const std::string folder =
      std::string(GetParam().name) == "cache" ? path_ : std::filesystem::directory_iterator(path_)->path().string();
  std::filesystem::remove(folder + "/description");
  const auto before = names();
  {
    const FolderLock lock(folder, "writing");
    calls();
    EXPECT_THAT(run(keep(numbers(10)).repeat(2)), SizeIs(20));
    EXPECT_EQ(calls(), 20);
    EXPECT_EQ(names(), before);
  }
  EXPECT_THAT(run(keep(numbers(10)).repeat(2)), SizeIs(20));
  EXPECT_EQ(calls(), 10);
}

TEST_P(PersistedElementsTest, DamageIsAnErrorWithFileAndOffset) {
  run(keep(numbers(5000)));
  for (const auto& [name, bytes] : test::files_below(path_)) {
    std::string bad = bytes;
    bad[bad.size() / 2] ^= 16;
    test::write_file(path_ + "/" + name, bad);
    const std::string error = error_of([&] { run(keep(numbers(5000))); });
    EXPECT_THAT(error,
                HasSubstr(name.ends_with("description") ? "parse: it is damaged; delete the folder" : "payload_crc"));
    EXPECT_THAT(error, HasSubstr("delete the folder to have it written anew"));
    EXPECT_THAT(error, HasSubstr("shard " + path_ + "/" + name));
    test::write_file(path_ + "/" + name, bytes);
  }
  EXPECT_EQ(error_of([&] { run(keep(numbers(5000))); }), "none");
}

// Whatever happens to the files of a folder, it is one error that names the file, and never other elements.
TEST_P(PersistedElementsTest, FilesThatWereCutEmptiedSwappedOrExchangedAreErrors) {
  const Dataset dataset = keep(numbers(5000));
  const std::vector<std::string> expected = run(dataset);
  std::map<std::string, std::string> whole = test::files_below(path_);
  ASSERT_THAT(whole, SizeIs(2));
  const std::string description = path_ + "/" + std::find_if(whole.begin(), whole.end(), [](const auto& file) {
                                                  return file.first.ends_with("description");
                                                })->first;
  const std::string elements = std::filesystem::path(description).parent_path().string() + "/elements-1-00000.tfrecord";
  const std::string bytes = test::read_file(elements);
  const std::string described = test::read_file(description);
  // Another folder of the same features, with as many elements.
  const std::string other = folder_.path("other");
  Dataset::range(5000, 10'000).save(other);
  const std::string other_elements = test::read_file(other + "/elements-1-00000.tfrecord");
  const std::string other_description = test::read_file(other + "/description");
  struct Attack {
    std::string file;
    std::string bytes;
    std::string said;
  };
  const Attack attacks[] = {
      {elements, bytes.substr(0, bytes.size() / 2), "truncated"},
      {elements, "", "truncated"},
      {elements, bytes + "more", "truncated"},
      {elements, other_elements.substr(0, bytes.size()), ""},
      {elements, std::string(bytes.size(), '\0'), "length_crc"},
      {description, "", "delete the folder to have it written anew"},
      {description, described.substr(0, 10), "delete the folder to have it written anew"},
      {description, described.substr(0, described.size() - 1), "delete the folder to have it written anew"},
      {description, "some notes of mine", "it is no description of elements"},
      {description, other_description, "save wrote"},
  };
  for (const Attack& attack : attacks) {
    SCOPED_TRACE(fmt::format("{}: {}", attack.file, attack.said));
    test::write_file(attack.file, attack.bytes);
    const std::string error = error_of([&] { run(dataset); });
    EXPECT_NE(error, "none");
    EXPECT_THAT(error, HasSubstr(attack.said));
    EXPECT_THAT(error, HasSubstr(path_));
    EXPECT_THAT(error, ::testing::Not(HasSubstr("\n")));
    EXPECT_EQ(test::read_file(attack.file), attack.bytes) << "it stays, for whoever wants to look";
    test::write_file(elements, bytes);
    test::write_file(description, described);
  }
  std::filesystem::remove(elements);
  EXPECT_THAT(error_of([&] { run(dataset); }), HasSubstr(elements));
  std::filesystem::remove_all(path_);
  EXPECT_EQ(run(dataset), expected);
}

TEST_P(PersistedElementsTest, AFolderMayHaveANameOfAnyBytes) {
  const std::string path = folder_.path("no \xff\xfe UTF-8\n");
  const Dataset dataset = GetParam().keep(numbers(3000), path);
  const std::vector<std::string> expected = run(dataset);
  calls();
  EXPECT_EQ(run(dataset), expected);
  EXPECT_EQ(calls(), 0);
}

TEST_P(PersistedElementsTest, AFolderThatIsReplacedWhileItIsWrittenIsAnErrorAndTheNextRunWritesIt) {
  std::filesystem::create_directories(path_);
  {
    Pipeline pipeline = keep(numbers(30'000)).start({.threads = 2});
    ASSERT_TRUE(pipeline.next());
    std::filesystem::rename(path_, folder_.path("away"));
    std::filesystem::create_directory(path_);
    EXPECT_THAT(error_of([&] { rest(pipeline); }), AnyOf(HasSubstr("while it was written"), HasSubstr("No such file")));
  }
  calls();
  EXPECT_THAT(run(keep(numbers(30'000))), SizeIs(30'000));
  EXPECT_THAT(run(keep(numbers(30'000))), SizeIs(30'000));
  EXPECT_EQ(calls(), 30'000);
}

TEST_P(PersistedElementsTest, ErrorsBehindItNameTheRecordInBothRuns) {
  const std::string path = folder_.path("a.tfrecord");
  {
    RecordWriter writer(path);
    for (int i = 0; i < 100; ++i) writer.write(std::to_string(i));
    writer.close();
  }
  const Dataset dataset = keep(Dataset::tfrecord(Shards::files({path})))
                              .skip(40)
                              .map({.name = "fails", .writes = {}, .function = [](const RowView&, RowWriter&) {
                                      throw std::runtime_error("no");
                                    }});
  const std::string first = error_of([&] { run(dataset); });
  EXPECT_THAT(first, HasSubstr("shard " + path + ", offset 710, record 40"));
  run(keep(Dataset::tfrecord(Shards::files({path}))));
  EXPECT_EQ(error_of([&] { run(dataset); }), first);
}

TEST_P(PersistedElementsTest, WhatCannotWorkIsSaid) {
  EXPECT_THAT(error_of([&] { (void)Dataset::range(0, 3).snapshot(""); }), HasSubstr("snapshot: directory is empty"));
  EXPECT_THAT(error_of([&] { (void)keep(Dataset::range(0, 3).repeat()); }), HasSubstr("the input has no end"));
  test::write_file(folder_.path("file"), "");
  EXPECT_THAT(error_of([&] { run(GetParam().keep(numbers(3), folder_.path("file/below"))); }), HasSubstr("file/below"));
  const DatasetFunction nested{.name = "nested",
                               .gives = {{.name = "value", .dtype = DType::kInt64, .shape = {}}},
                               .make = [this](const RowView&) { return keep(Dataset::range(0, 3)); }};
  EXPECT_THAT(error_of([&] { run(Dataset::range(0, 3).flat_map(nested)); }),
              HasSubstr("with a directory cannot be in a dataset that a function makes"));
}

TEST_P(PersistedElementsTest, ListedInputsKeepTheirOwn) {
  const auto dataset = [&] {
    return Dataset::interleave(
        {GetParam().keep(numbers(30), folder_.path("a")), GetParam().keep(numbers(40), folder_.path("b"))},
        {.cycle_length = 2});
  };
  const std::vector<std::string> expected = run(Dataset::interleave({numbers(30), numbers(40)}, {.cycle_length = 2}));
  calls();
  EXPECT_EQ(run(dataset()), expected);
  EXPECT_EQ(calls(), 70);
  EXPECT_EQ(run(dataset()), expected);
  EXPECT_EQ(calls(), 0);
}

TEST(FileCacheTest, AFolderOfSomebodyElseIsRefused) {
  const test::TemporaryFolder folder;
  Dataset::range(0, 5).save(folder.path("saved"));
  EXPECT_THAT(error_of([&] { (void)Dataset::range(0, 5).cache({.directory = folder.path("saved")}).start(); }),
              HasSubstr("holds 5 elements that save wrote, not cache; choose another folder"));
  EXPECT_THAT(run(Dataset::load(folder.path("saved"))), SizeIs(5));
}

TEST(FileCacheTest, MoreThanTheMemoryHasRoomForIsKept) {
  const WorkerLimit limit(4);
  const test::TemporaryFolder folder;
  const Dataset large =
      Dataset::range(0, 12'000).map({.name = "large",
                                     .writes = {{.name = "x", .dtype = DType::kInt64, .shape = {256}}},
                                     .function = [](const RowView& row, RowWriter& out) {
                                       const std::vector<int64_t> x(256, row.ordinal());
                                       out.set_values<int64_t>("x", x);
                                     }});
  Pipeline pipeline =
      large.cache({.directory = folder.path("c")}).repeat(2).start({.threads = 2, .memory_budget = 16 << 20});
  int64_t elements = 0;
  while (std::optional<Batch> batch = pipeline.next()) {
    EXPECT_EQ(batch->values<int64_t>("x")[255], elements % 12'000);
    ++elements;
  }
  EXPECT_EQ(elements, 24'000);
  EXPECT_LE(pipeline.stats().peak_buffer_bytes, 18 << 20);
}

TEST(CacheTest, WhatWasLeftOutIsToldInTheFirstEpoch) {
  const WorkerLimit limit(4);
  const test::TemporaryFolder folder;
  const std::string path = write_damaged_shard(folder);
  const Dataset dataset =
      Dataset::tfrecord(Shards::files({path}), {.damage = {.action = DamagePolicy::kSkip}}).cache().repeat(3);
  for (const size_t place : {0, 10, 60, 99, 109, 149, 160, 198, 297}) {
    Pipeline begun = dataset.start({.threads = 2});
    for (size_t i = 0; i < place; ++i) ASSERT_TRUE(begun.next());
    Pipeline pipeline = dataset.start({.threads = 2, .state = begun.save()});
    EXPECT_THAT(rest(pipeline), SizeIs(3 * 99 - place));
    EXPECT_EQ(pipeline.skipped().counts.records, 1u) << place;
  }
}

}  // namespace
}  // namespace millrace::persisted_elements_test
