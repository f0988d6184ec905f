#include "millrace/ops/sources/text_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/records/skipped_region.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/ops/file_source_cases.h"
#include "tests/support/packed.h"
#include "tests/support/temporary_folder.h"

namespace millrace::text_lines_test {
namespace {

using test::take_records;
using test::TakenRecords;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TextLines : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) const {
    test::write_file(folder_.path(name), content);
    return folder_.path(name);
  }
  Shards files(const std::vector<std::string>& contents) const {
    std::vector<std::string> paths;
    for (const std::string& content : contents) paths.push_back(write(std::to_string(paths.size()) + ".txt", content));
    return Shards::files(paths);
  }
  const test::TemporaryFolder folder_;
};

TEST_F(TextLines, AreThoseOfTensorFlow) {
  const std::vector<nlohmann::json> cases = test::file_source_cases("text_lines.jsonl");
  ASSERT_GE(cases.size(), 70);
  for (const nlohmann::json& one : cases) {
    std::vector<std::string> expected;
    for (const nlohmann::json& line : one.at("expect")) expected.push_back(test::bytes_of(line));
    const std::string content = test::bytes_of(one.at("content"));
    for (const Compression compression :
         {Compression::kNone, Compression::kZlib, Compression::kGzip, Compression::kZstd}) {
      const TakenRecords taken =
          take_records(Dataset::text_lines(files({test::packed(content, compression)}), {.compression = compression}));
      EXPECT_EQ(taken.records, expected) << one;
      EXPECT_EQ(taken.error, "") << one;
    }
  }
}

TEST_F(TextLines, OfSeveralFilesTakeTurns) {
  const Shards shards = files({"a0\na1\na2\n", "b0", "c0\nc1\n"});
  EXPECT_THAT(take_records(Dataset::text_lines(shards, {.cycle_length = 1})).records,
              ElementsAre("a0", "a1", "a2", "b0", "c0", "c1"));
  EXPECT_THAT(take_records(Dataset::text_lines(shards, {.cycle_length = 2, .block_length = 2})).records,
              ElementsAre("a0", "a1", "b0", "a2", "c0", "c1"));
  EXPECT_EQ(take_records(Dataset::text_lines(shards, {.shuffle_shards = true, .seed = 1})).records.size(), 6);
  EXPECT_EQ(Dataset::text_lines(shards).cardinality(), Cardinality::unknown());
}

TEST_F(TextLines, MayBeLongerThanAChunk) {
  const std::string line(3000000, 'x');
  std::string content;
  for (int i = 0; i < 5; ++i) content += std::to_string(i) + "\n" + line + std::to_string(i) + "\n";
  for (const Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZstd}) {
    const TakenRecords taken =
        take_records(Dataset::text_lines(files({test::packed(content, compression)}), {.compression = compression}));
    ASSERT_EQ(taken.records.size(), 10) << taken.error;
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(taken.records[2 * i], std::to_string(i));
      EXPECT_TRUE(taken.records[2 * i + 1] == line + std::to_string(i));
    }
  }
}

TEST_F(TextLines, ThatAreTooLongAreAnErrorWithItsPlace) {
  const Shards shards = files({"one\n12345\n123456\nlost\n", "next\n"});
  const TakenRecords taken = take_records(Dataset::text_lines(shards, {.cycle_length = 1, .max_record_bytes = 5}));
  EXPECT_THAT(taken.records, ElementsAre("one", "12345"));
  EXPECT_EQ(taken.error,
            "record_too_large: the line has more than 5 bytes (shard " + shards.path(0) + ", offset 10, record 2)");
  EXPECT_EQ(taken.what->lost_bytes, 12);
  // The next file goes on.
  EXPECT_THAT(
      take_records(Dataset::text_lines(shards, {.cycle_length = 1, .max_record_bytes = 5}).ignore_errors()).records,
      ElementsAre("one", "12345", "next"));
}

TEST_F(TextLines, ThatTheMemoryBudgetHasNoRoomForAreAnError) {
  const Shards shards = files({"short\n" + std::string(3 << 20, 'x') + "\n"});
  const TakenRecords taken =
      take_records(Dataset::text_lines(shards), {.threads = 2, .memory_budget = 8 << 20, .watchdog = 60});
  EXPECT_THAT(taken.records, ElementsAre("short"));
  EXPECT_THAT(taken.error, HasSubstr("memory_budget: the line has more than 2097152 bytes, a quarter of the memory "
                                     "budget of 8388608 bytes"));
}

TEST_F(TextLines, AnotherNumberThanPromisedIsAnError) {
  const Shards shards =
      Shards::files({write("a-2.txt", "x\ny\n"), write("b-3.txt", "x\ny\n")}).counts_from("*-{count}.txt");
  const Dataset dataset = Dataset::text_lines(shards, {.cycle_length = 1});
  EXPECT_EQ(dataset.cardinality(), Cardinality::known(5));
  const TakenRecords taken = take_records(dataset);
  EXPECT_EQ(taken.records.size(), 4);
  EXPECT_THAT(taken.error, HasSubstr("cardinality: 3 records were promised, 2 are there (shard " + shards.path(1)));
}

TEST_F(TextLines, OfAMissingOrDamagedFileAreAnError) {
  EXPECT_THAT(take_records(Dataset::text_lines(Shards::files({folder_.path("none")}))).error,
              HasSubstr("(shard " + folder_.path("none")));
  const TakenRecords plain = take_records(Dataset::text_lines(files({"plain\n"}), {.compression = Compression::kGzip}));
  EXPECT_THAT(plain.error, HasSubstr("compression: "));
  std::string content;
  for (int i = 0; i < 1000; ++i) content += "line " + std::to_string(i * 7919) + "\n";
  const std::string cut = test::packed(content, Compression::kGzip);
  const TakenRecords taken =
      take_records(Dataset::text_lines(files({cut.substr(0, cut.size() / 2)}), {.compression = Compression::kGzip}));
  EXPECT_GT(taken.records.size(), 100);
  EXPECT_LT(taken.records.size(), 999);
  EXPECT_EQ(taken.records.back(), "line " + std::to_string((taken.records.size() - 1) * 7919));
  EXPECT_THAT(taken.error, HasSubstr("truncated: "));
}

// Records and what was left out, from the beginning and from each place in the middle.
void expect_skipping(const Dataset& dataset, const std::vector<std::string>& records,
                     const std::vector<std::string>& regions) {
  const WorkerLimit workers(2);
  for (size_t at = 0; at <= records.size(); ++at) {
    Pipeline first = dataset.start({.threads = 2});
    for (size_t i = 0; i < at; ++i) ASSERT_TRUE(first.next());
    std::vector<SkippedRegion> skipped = first.skipped().regions;
    Pipeline pipeline = dataset.start({.threads = 2, .state = PipelineState::parse(first.save().serialize())});
    for (size_t i = at; i < records.size(); ++i) {
      const std::optional<Batch> batch = pipeline.next();
      ASSERT_TRUE(batch) << i;
      EXPECT_EQ(batch->values<std::string_view>("record")[0], records[i]);
    }
    EXPECT_FALSE(pipeline.next());
    for (const SkippedRegion& region : pipeline.skipped().regions) skipped.push_back(region);
    ASSERT_EQ(skipped.size(), regions.size()) << at;
    for (size_t i = 0; i < regions.size(); ++i) EXPECT_THAT(skipped[i].to_string(), HasSubstr(regions[i])) << at;
  }
}

TEST_F(TextLines, ThatAreTooLongAreLeftOutWhereThePolicySaysSo) {
  const std::string content = "one\n12345\n123456\nmore\r\n" + std::string(1000, 'x');
  for (const Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZstd}) {
    FileReadOptions options{.compression = compression, .max_record_bytes = 5, .damage = {DamagePolicy::kSkip}};
    const Shards shards = files({test::packed(content, compression)});
    expect_skipping(Dataset::text_lines(shards, options), {"one", "12345", "more"},
                    {"0.txt, bytes 10 to 17, 1 record from 2 on, epoch 0: record_too_large: the line has more than 5",
                     "0.txt, bytes 23 to 1023, 1 record from 4 on, epoch 0: record_too_large"});
    options.damage.max_records = 1;
    const TakenRecords taken = take_records(Dataset::text_lines(shards, options));
    EXPECT_THAT(taken.records, ElementsAre("one", "12345", "more"));
    EXPECT_THAT(taken.error, HasSubstr("damage_budget: 2 records and 1007 bytes are damaged of 5 records so far in "
                                       "this epoch, the budget is 1 records"));
    EXPECT_EQ(Dataset::text_lines(shards, options).cardinality(), Cardinality::unknown());
  }
}

TEST_F(TextLines, OfACompressedFileThatIsDamagedAreThoseBeforeTheDamage) {
  std::string content;
  std::vector<std::string> lines;
  for (int i = 0; i < 3000; ++i) {
    lines.push_back("line " + std::to_string(i * 7919));
    content += lines.back() + "\n";
  }
  for (const Compression compression : {Compression::kGzip, Compression::kZlib, Compression::kZstd}) {
    std::string cut = test::packed(content, compression);
    cut.resize(cut.size() - 3000);
    const Shards shards = Shards::files({write("cut", cut), write("whole", test::packed("next\n", compression))});
    const FileReadOptions options{.cycle_length = 1, .compression = compression, .damage = {DamagePolicy::kSkip}};
    const WorkerLimit workers(2);
    Pipeline pipeline = Dataset::text_lines(shards, options).start({.threads = 2});
    std::vector<std::string> records;
    while (const std::optional<Batch> batch = pipeline.next()) {
      records.emplace_back(batch->values<std::string_view>("record")[0]);
    }
    ASSERT_FALSE(records.empty());
    EXPECT_EQ(records.back(), "next");
    records.pop_back();
    EXPECT_LT(records.size(), 3000U);
    EXPECT_EQ(records,
              std::vector<std::string>(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(records.size())));
    ASSERT_EQ(pipeline.skipped().counts.regions, 1);
    EXPECT_EQ(pipeline.skipped().counts.regions_of_unknown_records, 1);
    EXPECT_THAT(pipeline.skipped().regions[0].to_string(),
                HasSubstr(" and all after, an unknown number of records from " + std::to_string(records.size())));
    // Nor is it known where more came than the file was promised to have.
    for (const uint64_t promised : {records.size() - 1, records.size(), records.size() + 5}) {
      Pipeline counted = Dataset::text_lines(shards.with_counts({promised, 1}), options).start({.threads = 2});
      while (counted.next()) {
      }
      const auto lost = promised < records.size() ? std::nullopt : std::optional(promised - records.size());
      EXPECT_EQ(counted.skipped().regions.at(0).records, lost);
    }
    // A file that is not there is no damage.
    const Shards missing = Shards::files({folder_.path("none")});
    EXPECT_THAT(take_records(Dataset::text_lines(missing, options)).error, HasSubstr("io: "));
  }
}

TEST_F(TextLines, BelongToAStateByShardsAndOptions) {
  const Shards shards = files({"a\nb\nc\n"});
  const Dataset dataset = Dataset::text_lines(shards, {.compression = Compression::kNone});
  EXPECT_THAT(dataset.explain({.threads = 1}), HasSubstr("text_lines(shards=1)"));
  std::string state;
  {
    Pipeline pipeline = dataset.start({.threads = 1});
    (void)pipeline.next();
    state = pipeline.save().serialize();
  }
  const auto resumed = [&](const Dataset& other) -> std::string {
    try {
      Pipeline pipeline = other.start({.threads = 1, .state = PipelineState::parse(state)});
      return std::string(pipeline.next()->values<std::string_view>("record")[0]);
    } catch (const ErrorException& e) {
      return e.what();
    }
  };
  EXPECT_EQ(resumed(dataset), "b");
  EXPECT_THAT(resumed(Dataset::text_lines(shards, {.compression = Compression::kGzip})),
              HasSubstr("the state is of another dataset"));
  write("0.txt", "a\nbb\nc\n");
  EXPECT_THAT(resumed(dataset), HasSubstr("the state is of other shards"));
}

TEST_F(TextLines, WithoutAnOrderCannotBeSaved) {
  EXPECT_EQ(TextLinesOperator(files({"a"}), {.ordered = false}).traits().checkpoint_blocker,
            "its inputs are not ordered");
}

// And not `interleave`, whose options they pass on.
TEST_F(TextLines, RefusalsNameTheSourceThatWasCalled) {
  const auto refusal = [](const auto& source) -> std::string {
    try {
      (void)source();
      return "accepted";
    } catch (const ErrorException& e) {
      return e.error().message;
    }
  };
  const Shards shards = files({"a"});
  EXPECT_EQ(refusal([&] { return Dataset::text_lines(shards, {.cycle_length = 0}); }),
            "text_lines: cycle_length must be at least 1, not 0");
  EXPECT_EQ(refusal([&] { return Dataset::fixed_length_records(shards, {.record_bytes = 1}, {.block_length = 0}); }),
            "fixed_length_records: block_length must be at least 1, not 0");
  EXPECT_EQ(refusal([&] { return Dataset::csv_records(shards, {}, {.cycle_length = 0}); }),
            "csv_records: cycle_length must be at least 1, not 0");
  EXPECT_EQ(refusal([&] { return Dataset::tfrecord(shards, {.cycle_length = 0}); }),
            "tfrecord: cycle_length must be at least 1, not 0");
  EXPECT_EQ(refusal([&] { return Dataset::csv_records(shards, {.delimiter = '"'}); }),
            "csv_records: the delimiter must be no end of a line and no quote");
  EXPECT_EQ(refusal([&] { return Dataset::text_lines(shards).parse_csv({{.name = "a"}}, {.delimiter = '"'}); }),
            "parse_csv: the delimiter must be no end of a line and no quote");
}

}  // namespace
}  // namespace millrace::text_lines_test
