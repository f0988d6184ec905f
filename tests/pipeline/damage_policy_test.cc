// What a pipeline does about damaged shards under the policy `skip`.
#include "millrace/formats/records/damage_policy.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/example/writer.h"
#include "millrace/formats/storage/local.h"
#include "millrace/formats/tfrecord/index/index_builder.h"
#include "millrace/formats/tfrecord/writer.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/stream_hash.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/support/damage.h"
#include "tests/support/injecting_storage.h"
#include "tests/support/places.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tfrecord_fixtures.h"

namespace millrace::damage_policy_test {
namespace {

using test::planted_faults;
using test::PlantedFault;
using test::read_file;
using test::TemporaryFolder;
using test::write_file;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr DamagePolicy kSkipAll = {.action = DamagePolicy::kSkip};
constexpr size_t kFrame = 16;

/// What a run gives: each record or batch as text, and the error at its end; what it left out, as it was told.
struct Outcome {
  std::vector<std::string> elements;
  std::vector<std::string> told;
  SkipReport skipped;
  friend bool operator==(const Outcome& a, const Outcome& b) {
    return a.elements == b.elements && a.told == b.told && a.skipped.counts == b.skipped.counts;
  }
};

void take_rest(Pipeline& pipeline, Outcome& outcome, size_t most = SIZE_MAX) {
  try {
    for (size_t i = 0; i < most; ++i) {
      const std::optional<Batch> batch = pipeline.next();
      if (!batch) {
        outcome.elements.emplace_back("end");
        break;
      }
      outcome.elements.push_back(
          fmt::format("{} rows {:016x} epoch {}", batch->num_rows(), batch_hash(*batch), batch->epoch()));
    }
  } catch (const PipelineError& error) {
    outcome.elements.emplace_back(error.what());
  }
  outcome.skipped = pipeline.skipped();
}

StartOptions telling(StartOptions options, Outcome& outcome) {
  options.on_skip = [&outcome](const SkippedRegion& region) { outcome.told.push_back(region.to_string()); };
  return options;
}

Outcome run(const Dataset& dataset, const StartOptions& options = {.threads = 2}) {
  const WorkerLimit limit(std::max(1, options.threads));
  Outcome outcome;
  Pipeline pipeline = dataset.start(telling(options, outcome));
  take_rest(pipeline, outcome);
  EXPECT_EQ(outcome.skipped.counts, pipeline.stats().skipped);
  EXPECT_EQ(outcome.told.size(), static_cast<size_t>(outcome.skipped.counts.regions));
  EXPECT_THAT(outcome.skipped.regions, SizeIs(outcome.told.size()));
  return outcome;
}

// Saves at every place (`is_tried`), and goes on with another number of threads: the same elements, the same regions
// told, and the same counts at the end.
void expect_resumes_everywhere(const Dataset& dataset) {
  const WorkerLimit limit(4);
  const Outcome straight = run(dataset, {.threads = 2});
  Outcome before;
  Pipeline pipeline = dataset.start(telling({.threads = 2}, before));
  for (size_t place = 0; place <= straight.elements.size() + 1; ++place) {
    if (!test::is_tried(place, straight.elements.size())) {
      take_rest(pipeline, before, 1);
      continue;
    }
    SCOPED_TRACE(fmt::format("saved after {} of {}", place, straight.elements.size()));
    const PipelineState state = PipelineState::parse(pipeline.save().serialize());
    EXPECT_EQ(state.skipped(), pipeline.skipped().counts);
    Outcome resumed;
    resumed.elements = before.elements;
    resumed.told = before.told;
    // The end or the error comes again.
    if (!resumed.elements.empty() && resumed.elements.size() == straight.elements.size()) resumed.elements.pop_back();
    StartOptions options{.threads = 1 + static_cast<int>(place % 3)};
    if (place % 4 == 3) options.disabled_rewrites = {"defer_parse"};
    options.state = state;
    {
      Pipeline once = dataset.start(telling(options, resumed));
      if (place % 2 == 0) {
        take_rest(once, resumed);
      } else {
        take_rest(once, resumed, place % 5);
        options.state = PipelineState::parse(once.save().serialize());
        if (resumed.elements.size() == straight.elements.size()) resumed.elements.pop_back();
        Pipeline twice = dataset.start(telling(options, resumed));
        take_rest(twice, resumed);
      }
    }
    ASSERT_EQ(resumed.elements, straight.elements);
    ASSERT_EQ(resumed.told, straight.told);
    ASSERT_EQ(resumed.skipped.counts, straight.skipped.counts);
    if (before.elements.size() < straight.elements.size()) take_rest(pipeline, before, 1);
  }
}

class SkippedDamage : public testing::Test {
 protected:
  static std::string payload(const std::string& shard, int record) {
    std::string text = fmt::format("{} {} ", shard, record);
    for (int i = 0; i < 5 + 7 * (record % 5); ++i) text += static_cast<char>('a' + (record * 31 + i * 17) % 26);
    return text;
  }
  static size_t offset(const std::string& shard, int record) {
    size_t at = 0;
    for (int r = 0; r < record; ++r) at += payload(shard, r).size() + kFrame;
    return at;
  }
  std::string path(const std::string& shard) const { return folder_.path(shard + ".tfrecord"); }
  void write(const std::string& shard, int records, Compression compression = Compression::kNone,
             bool indexed = false) {
    RecordWriter writer(path(shard), {.compression = compression});
    for (int r = 0; r < records; ++r) writer.write(payload(shard, r));
    writer.close();
    if (indexed) {
      InlineExecutor inline_executor;
      LocalStorage storage(inline_executor);
      write_file(index_path(path(shard)), build_shard_index(storage, path(shard)).serialize());
    }
  }
  void flip(const std::string& shard, size_t at, char bits = 4) const {
    std::string bytes = read_file(path(shard));
    bytes.at(at) = static_cast<char>(bytes.at(at) ^ bits);
    write_file(path(shard), bytes);
  }
  void flip_payload(const std::string& shard, int record) const { flip(shard, offset(shard, record) + 12); }
  void flip_length(const std::string& shard, int record) const { flip(shard, offset(shard, record) + 1); }

  // One bad payload in a, a bad length in b, which has an index, and one in c, which has none; d is whole; e ends in a
  // record; of f the first record is bad and of g the last.
  void write_all_kinds() {
    for (const char* shard : {"a", "b", "c", "d", "e", "f", "g"}) write(shard, 30, Compression::kNone, shard[0] == 'b');
    flip_payload("a", 11);
    flip_length("b", 7);
    flip_length("c", 22);
    std::filesystem::resize_file(path("e"), offset("e", 25) + 14);
    flip_payload("f", 0);
    flip_payload("g", 29);
  }
  static constexpr int kLeft = 29 + 29 + 22 + 30 + 25 + 29 + 29;
  Dataset all(const TfrecordOptions& options = {.cycle_length = 3, .damage = kSkipAll}) const {
    return Dataset::tfrecord(Shards::glob(folder_.path("*.tfrecord")), options);
  }

  // The same for any number of threads, with and without rewrites, on a storage that is slow and not reliable.
  static Outcome run_in_every_way(const Dataset& dataset, size_t max_read_bytes = 300) {
    const Outcome expected = run(dataset, {.threads = 1});
    EXPECT_EQ(run(dataset, {.threads = 2}), expected);
    EXPECT_EQ(run(dataset, {.threads = 8}), expected);
    EXPECT_EQ(run(dataset, {.threads = 2, .disabled_rewrites = {"defer_parse"}}), expected);
    InlineExecutor inline_executor;
    LocalStorage local(inline_executor);
    const auto slow = std::make_shared<test::InjectingStorage>(
        local, test::InjectionOptions{.max_latency = std::chrono::microseconds(200),
                                      .max_read_bytes = max_read_bytes,
                                      .retriable_error_rate = 0.1});
    EXPECT_EQ(run(dataset, {.threads = 3, .storage = slow}), expected);
    return expected;
  }

  TemporaryFolder folder_;
};

TEST_F(SkippedDamage, IsOfAnUnknownNumberOfRecordsWhereMoreCameThanWerePromised) {
  const TemporaryFolder folder;
  const std::string cut = folder.path("cut");
  {
    RecordWriter writer(cut);
    for (int i = 0; i < 10; ++i) writer.write(std::string(20, 'a'));
    writer.close();
  }
  write_file(cut, read_file(cut).substr(0, std::filesystem::file_size(cut) - 5));
  for (const uint64_t promised : {7, 9, 12}) {
    const Shards shards = Shards::files({cut}).with_counts({promised});
    Pipeline pipeline = Dataset::tfrecord(shards, {.damage = kSkipAll}).start();
    for (int i = 0; i < 9; ++i) ASSERT_TRUE(pipeline.next());
    ASSERT_FALSE(pipeline.next());
    const std::vector<SkippedRegion> regions = pipeline.skipped().regions;
    ASSERT_THAT(regions, SizeIs(1));
    EXPECT_EQ(regions[0].records, promised < 9 ? std::nullopt : std::optional(promised - 9)) << promised;
  }
}

TEST_F(SkippedDamage, CostsOneRecordOrWhatIsUpToTheNextKnownPlaceAndEveryLossIsListed) {
  write_all_kinds();
  const Outcome outcome = run_in_every_way(all());
  EXPECT_THAT(outcome.elements, SizeIs(kLeft + 1));
  EXPECT_EQ(outcome.elements.back(), "end");
  std::map<std::string, SkippedRegion> by_shard;
  for (const SkippedRegion& region : outcome.skipped.regions) {
    by_shard[std::filesystem::path(region.shard).stem().string()] = region;
  }
  const auto expect = [&](const std::string& shard, int first, int last, ErrorCode code,
                          std::optional<uint64_t> records) {
    SCOPED_TRACE(shard);
    ASSERT_EQ(by_shard.count(shard), 1U);
    const SkippedRegion& region = by_shard[shard];
    EXPECT_EQ(region.shard, path(shard));
    EXPECT_EQ(region.begin, offset(shard, first));
    EXPECT_EQ(region.end, std::min<uint64_t>(offset(shard, last), std::filesystem::file_size(path(shard))));
    EXPECT_TRUE(region.end_is_known);
    EXPECT_EQ(region.first_record, static_cast<uint64_t>(first));
    EXPECT_EQ(region.records, records);
    EXPECT_EQ(region.code, code);
    EXPECT_EQ(region.epoch, 0);
  };
  EXPECT_THAT(by_shard, SizeIs(6));
  expect("a", 11, 12, ErrorCode::kPayloadCrc, 1);
  expect("b", 7, 8, ErrorCode::kLengthCrc, 1);
  expect("c", 22, 30, ErrorCode::kLengthCrc, std::nullopt);
  expect("e", 25, 26, ErrorCode::kTruncated, std::nullopt);
  expect("f", 0, 1, ErrorCode::kPayloadCrc, 1);
  expect("g", 29, 30, ErrorCode::kPayloadCrc, 1);
  const SkipCounts& counts = outcome.skipped.counts;
  EXPECT_EQ(counts.regions, 6);
  EXPECT_EQ(counts.records, 4);
  EXPECT_EQ(counts.regions_of_unknown_records, 2);
  EXPECT_THAT(outcome.skipped.to_string(),
              HasSubstr("skipped 6 regions, 4 records and those of 2 regions with an unknown number, "));
  EXPECT_THAT(outcome.skipped.to_string(1), HasSubstr("  and 5 more\n"));
}

TEST_F(SkippedDamage, LeavesTheOtherRecordsInTheirOrder) {
  write("a", 10);
  write("b", 10);
  flip_payload("a", 3);
  flip_payload("b", 3);
  std::vector<std::string> found;
  Pipeline pipeline = all({.cycle_length = 2, .damage = kSkipAll}).start({.threads = 2});
  while (const auto batch = pipeline.next()) {
    found.emplace_back(batch->values<std::string_view>("record")[0]);
  }
  std::vector<std::string> expected;
  for (int r = 0; r < 10; ++r) {
    if (r == 3) continue;
    expected.push_back(payload("a", r));
    expected.push_back(payload("b", r));
  }
  EXPECT_EQ(found, expected);
}

TEST_F(SkippedDamage, IsTheSameBehindEveryOperator) {
  write_all_kinds();
  const Dataset records = all({.cycle_length = 3, .shuffle_shards = true, .seed = 3, .damage = kSkipAll});
  const auto rows = [](const Outcome& outcome) {
    int64_t sum = 0;
    for (const std::string& element : outcome.elements) {
      if (element.find(" rows ") != std::string::npos) sum += std::stoll(element);
    }
    return sum;
  };
  EXPECT_EQ(rows(run_in_every_way(records.batch(7))), kLeft);
  EXPECT_EQ(rows(run_in_every_way(records.shuffle(40, {.seed = 1}).batch(7).repeat(3))), 3 * kLeft);
  const Outcome spanning =
      run_in_every_way(records.shuffle(1000).repeat(3).batch(7, {.drop_remainder = true}).prefetch(2));
  EXPECT_EQ(rows(spanning), 3 * kLeft / 7 * 7);
  EXPECT_EQ(spanning.skipped.counts.regions, 18);
  EXPECT_EQ(spanning.skipped.regions.back().epoch, 2);
  EXPECT_EQ(rows(run_in_every_way(records.batch(2).batch(3))), kLeft);
  EXPECT_EQ(rows(run_in_every_way(records.take(50))), 50) << "what was left out is not taken";
  EXPECT_EQ(rows(run_in_every_way(records.skip(50))), kLeft - 50);
  EXPECT_EQ(rows(run_in_every_way(records.skip(kLeft - 5))), 5);
  EXPECT_EQ(run(records.skip(50)).skipped.counts.regions, 6) << "in what is passed over as well";
  EXPECT_EQ(rows(run_in_every_way(records.shard(3, 0))) + rows(run_in_every_way(records.shard(3, 1))) +
                rows(run_in_every_way(records.shard(3, 2))),
            kLeft);
  EXPECT_EQ(run_in_every_way(records.ignore_errors().batch(7)), run(records.batch(7)));
  EXPECT_EQ(rows(run_in_every_way(records.filter(RowPredicate{"none", [](const RowView&) { return false; }}))), 0);
  const Outcome twice = run_in_every_way(Dataset::interleave({records, records}, {.cycle_length = 2}).batch(5));
  EXPECT_EQ(rows(twice), 2 * kLeft);
  EXPECT_EQ(twice.skipped.counts.regions, 12);
  EXPECT_EQ(run(records.assert_cardinality(kLeft)).elements.back(), "end");
  EXPECT_EQ(records.cardinality(), Cardinality::unknown());
}

// A record that does not parse, then damage, in one batch, wherever parsing stands.
TEST_F(SkippedDamage, BehindARecordThatDoesNotParseIsNotReached) {
  for (const int bad : {3, 20}) {
    RecordWriter writer(path("a"));
    size_t begin = 0;
    for (int r = 0; r < 30; ++r) {
      ExampleWriter example;
      if (r != bad) example.add("id", std::span<const int64_t>(std::array<int64_t, 1>{r}));
      const std::string text(example.finish());
      if (r < 12) begin += text.size() + kFrame;
      writer.write(text);
    }
    writer.close();
    flip("a", begin + 12);
    const Dataset dataset = all().parse_example({fixed_len("id", {}, DType::kInt64)}).batch(25);
    const Outcome outcome = run_in_every_way(dataset);
    EXPECT_THAT(outcome.elements, ElementsAre(HasSubstr("missing_feature")));
    EXPECT_THAT(outcome.told, SizeIs(bad < 12 ? 0 : 1));
    expect_resumes_everywhere(dataset);
    EXPECT_THAT(run_in_every_way(dataset.ignore_errors()).told, SizeIs(1));
  }
}

TEST_F(SkippedDamage, IsCountedWhenTheConsumerComesPastIt) {
  write("a", 40);
  flip_payload("a", 10);
  flip_payload("a", 30);
  const WorkerLimit limit(8);
  for (const int threads : {1, 2, 8}) {
    Pipeline pipeline = all().start({.threads = threads});
    for (int record = 0; record < 40; ++record) {
      if (record == 10 || record == 30) continue;
      ASSERT_TRUE(pipeline.next().has_value());
      EXPECT_EQ(pipeline.skipped().counts.regions, (record > 10 ? 1 : 0) + (record > 30 ? 1 : 0)) << record;
    }
  }
}

TEST_F(SkippedDamage, OfEverythingIsAnEndAndNoEndlessLoop) {
  write("a", 3);
  for (int r = 0; r < 3; ++r) flip_payload("a", r);
  const Outcome outcome = run_in_every_way(all().repeat().batch(2));
  EXPECT_THAT(outcome.elements, ElementsAre("end"));
  EXPECT_EQ(outcome.skipped.counts.records, 3);
}

TEST_F(SkippedDamage, OfCompressedShardsEndsAtTheNextSeekPoint) {
  for (const Compression compression : {Compression::kGzip, Compression::kZlib, Compression::kZstd}) {
    for (const bool indexed : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, index {}", to_string(compression), indexed));
      // Some 6 MB that hardly compress: seek points are 1 MiB of unpacked bytes apart.
      constexpr int kRecords = 1500;
      const std::string file = path("packed");
      RecordWriter writer(file, {.compression = compression});
      uint64_t noise = 1;
      for (int r = 0; r < kRecords; ++r) {
        std::string text = fmt::format("{} ", r);
        while (text.size() < 4000) {
          noise = noise * 6364136223846793005U + 1442695040888963407U;
          text += static_cast<char>(noise >> 56);
        }
        writer.write(text);
      }
      writer.close();
      InlineExecutor inline_executor;
      LocalStorage storage(inline_executor);
      std::filesystem::remove(index_path(file));
      if (indexed) write_file(index_path(file), build_shard_index(storage, file).serialize());
      flip("packed", std::filesystem::file_size(file) / 3, 0x40);
      const Outcome outcome = run_in_every_way(all().batch(50), 200000);
      ASSERT_GE(outcome.skipped.counts.regions, 1);
      const SkippedRegion& region = outcome.skipped.regions.front();
      EXPECT_LT(region.first_record, 700U);
      int64_t rows = 0;
      for (const std::string& element : outcome.elements) {
        if (element != "end") rows += std::stoll(element);
      }
      if (!indexed && compression != Compression::kZstd) continue;  // what can be read without one depends on the place
      expect_resumes_everywhere(all().batch(60));
      EXPECT_EQ(outcome.skipped.counts.regions_of_unknown_records, 0);
      EXPECT_EQ(rows + outcome.skipped.counts.records, kRecords);
      EXPECT_LT(outcome.skipped.counts.bytes, 3 << 20);
    }
  }
}

TEST_F(SkippedDamage, AWrongTrailerBehindGoodRecordsLosesNoneAndIsReported) {
  write("a", 20, Compression::kGzip);
  flip("a", std::filesystem::file_size(path("a")) - 6);
  const Outcome outcome = run_in_every_way(all());
  EXPECT_THAT(outcome.elements, SizeIs(21));
  ASSERT_THAT(outcome.told, SizeIs(1));
  EXPECT_THAT(outcome.told[0], HasSubstr(", nothing lost, epoch 0: compression: "));
  EXPECT_EQ(outcome.skipped.counts.bytes, 0);
}

TEST_F(SkippedDamage, AWrongTrailerBetweenMembersIsReportedOnceAlsoByRunsThatGoOnBehindIt) {
  write("a", 20, Compression::kGzip);
  flip("a", std::filesystem::file_size(path("a")) - 6);
  const std::string first = read_file(path("a"));
  write("a", 20, Compression::kGzip);
  write_file(path("a"), first + read_file(path("a")));
  const Outcome outcome = run_in_every_way(all().batch(3));
  EXPECT_THAT(outcome.elements, SizeIs(15));
  EXPECT_THAT(outcome.told, SizeIs(1));
  expect_resumes_everywhere(all().batch(3));
}

TEST_F(SkippedDamage, AnIndexThatIsOfNoUseCostsNothingMoreAndIsNamed) {
  write("a", 30);
  flip_length("a", 10);
  const Outcome without = run(all());
  write_file(index_path(path("a")), "no index");
  const Outcome broken = run_in_every_way(all());
  EXPECT_EQ(broken.elements, without.elements);
  EXPECT_EQ(broken.skipped.counts, without.skipped.counts);
  EXPECT_THAT(broken.told[0], HasSubstr("the shard's index is of no use: "));
  write("other", 31, Compression::kNone, true);
  std::filesystem::rename(index_path(path("other")), index_path(path("a")));
  std::filesystem::remove(path("other"));
  const Outcome foreign = run_in_every_way(all());
  EXPECT_EQ(foreign.elements, without.elements);
  EXPECT_THAT(foreign.told[0], HasSubstr("the shard's index is of no use: "));
}

TEST_F(SkippedDamage, BeyondItsBudgetIsAnErrorWithTheFigures) {
  write("a", 100);
  for (const int record : {10, 20, 30, 40}) flip_payload("a", record);
  const auto with = [&](const DamagePolicy& damage) { return run_in_every_way(all({.damage = damage})); };
  const auto expect_error = [&](const DamagePolicy& damage, size_t good, const std::string& text) {
    const Outcome outcome = with(damage);
    EXPECT_THAT(outcome.elements, SizeIs(good + 1));
    EXPECT_THAT(outcome.elements.back(), HasSubstr(text));
    EXPECT_THAT(outcome.elements.back(), HasSubstr(fmt::format("(shard {}, offset ", path("a"))));
  };
  expect_error({.action = DamagePolicy::kSkip, .max_records = 2}, 28,
               "damage_budget: 3 records and 78 bytes are damaged of 31 records so far in this epoch, the budget is 2 "
               "records; last ");
  expect_error({.action = DamagePolicy::kSkip, .max_records = 0}, 10, "the budget is 0 records");
  expect_error({.action = DamagePolicy::kSkip, .max_bytes = 77}, 28, "the budget is 77 bytes");
  expect_error({.action = DamagePolicy::kSkip, .max_share = 0.003}, 37, "the budget is 0.003 of the records");
  for (const DamagePolicy& enough : {DamagePolicy{.action = DamagePolicy::kSkip, .max_records = 4},
                                     DamagePolicy{.action = DamagePolicy::kSkip, .max_bytes = 1000},
                                     DamagePolicy{.action = DamagePolicy::kSkip, .max_share = 0.004}}) {
    EXPECT_THAT(with(enough).elements, SizeIs(97));
  }
  EXPECT_EQ(run(all({.damage = {.action = DamagePolicy::kSkip, .max_records = 4}}).repeat(3)).elements.back(), "end")
      << "for each run through the data";
  flip_length("a", 90);
  EXPECT_THAT(with({.action = DamagePolicy::kSkip, .max_records = 1000}).elements.back(),
              HasSubstr("4 records and an unknown number more and "));
  EXPECT_EQ(with({.action = DamagePolicy::kSkip, .max_bytes = 2000}).elements.back(), "end");
}

TEST_F(SkippedDamage, RefusesABudgetThatIsNone) {
  const auto refused = [&](const DamagePolicy& damage, const std::string& text) {
    try {
      damage.check();
      FAIL() << text;
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  refused({.action = DamagePolicy::kSkip, .max_records = -1}, "damage: max_records is -1, must be at least 0");
  refused({.action = DamagePolicy::kSkip, .max_bytes = -1}, "damage: max_bytes is -1");
  refused({.action = DamagePolicy::kSkip, .max_share = 1.5}, "damage: max_share is 1.5, must be from 0 to 1");
  refused({.max_records = 1}, "without effect");
}

TEST_F(SkippedDamage, IsNoReasonToMissAShardOrAPromisedNumber) {
  write("a-5", 5);
  const Dataset missing = Dataset::tfrecord(Shards::files({path("a-5"), path("b")}), {.damage = kSkipAll});
  EXPECT_THAT(run_in_every_way(missing).elements.back(), HasSubstr("io: cannot open"));
  std::filesystem::rename(path("a-5"), path("a-7"));
  const Dataset promised =
      Dataset::tfrecord(Shards::files({path("a-7")}).counts_from("*-{count}.tfrecord"), {.damage = kSkipAll});
  EXPECT_THAT(run_in_every_way(promised).elements.back(),
              HasSubstr("cardinality: 7 records were promised, 5 are there"));
  // A damaged record is there.
  std::filesystem::rename(path("a-7"), path("a-5"));
  flip(std::string("a-5"), offset("a-5", 2) + 12);
  const Dataset damaged =
      Dataset::tfrecord(Shards::files({path("a-5")}).counts_from("*-{count}.tfrecord"), {.damage = kSkipAll});
  EXPECT_THAT(run_in_every_way(damaged).elements, SizeIs(5));
  // And so are those of a lost rest, whose number the name tells.
  flip(std::string("a-5"), offset("a-5", 3) + 1);
  const Outcome rest = run_in_every_way(damaged);
  EXPECT_EQ(rest.elements.back(), "end");
  EXPECT_EQ(rest.skipped.counts.records, 3);
  EXPECT_EQ(rest.skipped.counts.regions_of_unknown_records, 0);
}

TEST_F(SkippedDamage, IsKeptAcrossResumesAtEveryPlace) {
  write_all_kinds();
  const Dataset records = all({.cycle_length = 3, .shuffle_shards = true, .seed = 3, .damage = kSkipAll});
  expect_resumes_everywhere(records);
  expect_resumes_everywhere(records.batch(7).repeat(2));
  expect_resumes_everywhere(records.repeat(2).batch(5, {.drop_remainder = true}));
  expect_resumes_everywhere(records.shuffle(30, {.seed = 1}).batch(4).repeat(2));
  expect_resumes_everywhere(records.skip(20).shard(2, 1).batch(3));
  expect_resumes_everywhere(records.batch(2).batch(3));
  expect_resumes_everywhere(records.ignore_errors().shuffle(20).take(60).padded_batch(7));
  expect_resumes_everywhere(records.take(150).assert_cardinality(151));
  expect_resumes_everywhere(records.assert_cardinality(90));
  expect_resumes_everywhere(all({.damage = {.action = DamagePolicy::kSkip, .max_bytes = 250}}).batch(3));
  expect_resumes_everywhere(all({.damage = {.action = DamagePolicy::kSkip, .max_bytes = 250}}).ignore_errors());
}

TEST_F(SkippedDamage, MayBeSkippedByARunThatGoesOnFromOneThatStoppedAtIt) {
  write("a", 40);
  write("b", 40);
  flip_payload("b", 25);
  const auto dataset = [&](const DamagePolicy& damage) { return all({.cycle_length = 2, .damage = damage}).batch(4); };
  const Outcome straight = run(dataset(kSkipAll));
  Outcome outcome;
  PipelineState state = [&] {
    Pipeline failing = dataset({}).start({.threads = 2});
    take_rest(failing, outcome);
    return failing.save();
  }();
  EXPECT_THAT(outcome.elements.back(), HasSubstr("payload_crc"));
  outcome.elements.pop_back();
  Pipeline pipeline = dataset(kSkipAll).start(telling({.threads = 2, .state = state}, outcome));
  take_rest(pipeline, outcome);
  EXPECT_EQ(outcome, straight);
  // And back.
  Pipeline again = dataset({}).start({.threads = 2, .state = pipeline.save()});
  EXPECT_EQ(again.next(), std::nullopt);
  EXPECT_EQ(again.skipped().counts, straight.skipped.counts);
}

// Single flipped bits anywhere: what a reader gives that has the index from its beginning on, or none.
TEST_F(SkippedDamage, OfAnyFlippedBitIsWhatAReaderLoses) {
  constexpr int kRecords = 200;
  constexpr int kFlips = 60 / static_cast<int>(test::kStride);
  InlineExecutor inline_executor;
  LocalStorage local(inline_executor);
  BufferPool pool;
  test::Damage damage;
  for (const Compression compression :
       {Compression::kNone, Compression::kGzip, Compression::kZlib, Compression::kZstd}) {
    write("a", kRecords, compression, /*indexed=*/true);
    const std::string good = read_file(path("a"));
    const std::string index_bytes = read_file(index_path(path("a")));
    const auto index = std::make_shared<const ShardIndex>(ShardIndex::parse(index_bytes));
    for (int i = 0; i < kFlips; ++i) {
      std::string bytes = good;
      damage.flip_bits(bytes, 1);
      write_file(path("a"), bytes);
      for (const bool indexed : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, flip {}, index {}", to_string(compression), i, indexed));
        std::filesystem::remove(index_path(path("a")));
        if (indexed) write_file(index_path(path("a")), index_bytes);
        const std::optional<Compression> declared = i % 2 == 0 ? std::optional(compression) : std::nullopt;
        test::ReadShard expected =
            test::read_shard(local, pool, path("a"), {.compression = declared, .index = indexed ? index : nullptr},
                             /*stop_at_error=*/false);
        // A seek table that is broken loses nothing.
        std::erase_if(expected.faults, [](const RecordFault& fault) { return fault.error.code == ErrorCode::kIndex; });
        std::vector<std::string> records;
        for (const test::ReadRecord& record : expected.records) {
          records.push_back(record.payload);
          if (indexed) {
            ASSERT_EQ(record.payload, payload("a", static_cast<int>(record.index)));
          }
        }
        const Dataset dataset =
            Dataset::tfrecord(Shards::files({path("a")}), {.compression = declared, .damage = kSkipAll});
        Pipeline pipeline = dataset.start({.threads = 1});
        std::vector<std::string> found;
        while (const auto batch = pipeline.next()) {
          found.emplace_back(batch->values<std::string_view>("record")[0]);
        }
        ASSERT_EQ(found, records);
        const SkipReport skipped = pipeline.skipped();
        ASSERT_THAT(skipped.regions, SizeIs(expected.faults.size()));
        for (size_t f = 0; f < expected.faults.size(); ++f) {
          EXPECT_EQ(skipped.regions[f].begin, expected.faults[f].begin);
          EXPECT_EQ(skipped.regions[f].end, expected.faults[f].end);
          EXPECT_EQ(skipped.regions[f].end_is_known, expected.faults[f].end_is_known);
          EXPECT_EQ(skipped.regions[f].code, expected.faults[f].error.code);
        }
        if (indexed) {
          EXPECT_EQ(static_cast<int64_t>(found.size()) + skipped.counts.records, kRecords);
          EXPECT_EQ(skipped.counts.regions_of_unknown_records, 0);
        }
      }
    }
  }
}

// The planted faults: exactly what a reader by itself gives and loses.
TEST_F(SkippedDamage, OfEveryPlantedFaultIsWhatAReaderLoses) {
  const std::string fixtures = test::data_path("tfrecord");
  InlineExecutor inline_executor;
  LocalStorage local(inline_executor);
  BufferPool pool;
  size_t seen = 0;
  for (const PlantedFault& fault : planted_faults(fixtures)) {
    if (seen++ % (test::kSanitized ? 7 : 1) != 0) continue;  // there are five faults of each place
    SCOPED_TRACE(fault.name);
    const std::string file = fixtures + "/corrupt/" + fault.name;
    const test::ReadShard expected =
        test::read_shard(local, pool, file, {.compression = fault.compression}, /*stop_at_error=*/false);
    const Dataset records =
        Dataset::tfrecord(Shards::files({file}), {.compression = fault.compression, .damage = kSkipAll});
    const Outcome outcome = run_in_every_way(records);
    EXPECT_THAT(outcome.elements, SizeIs(expected.records.size() + 1));
    EXPECT_EQ(outcome.elements.back(), "end");
    ASSERT_THAT(outcome.skipped.regions, SizeIs(expected.faults.size()));
    EXPECT_EQ(fault.walk.has_fault(), !outcome.told.empty());
    for (size_t i = 0; i < expected.faults.size(); ++i) {
      EXPECT_EQ(outcome.skipped.regions[i].begin, expected.faults[i].begin);
      EXPECT_EQ(outcome.skipped.regions[i].end, expected.faults[i].end);
      EXPECT_EQ(outcome.skipped.regions[i].code, expected.faults[i].error.code);
    }
    // Records and regions of a plain file make up all of it.
    if (fault.compression == Compression::kNone) {
      std::map<uint64_t, uint64_t> parts;
      for (const test::ReadRecord& record : expected.records) {
        parts[record.offset] = record.offset + record.payload.size() + kFrame;
      }
      for (const SkippedRegion& region : outcome.skipped.regions) parts[region.begin] = region.end;
      uint64_t at = 0;
      for (const auto& [begin, end] : parts) {
        EXPECT_EQ(begin, at);
        at = end;
      }
      EXPECT_EQ(at, std::filesystem::file_size(file));
    }
  }
  EXPECT_EQ(seen, 135U);
}

}  // namespace
}  // namespace millrace::damage_policy_test
