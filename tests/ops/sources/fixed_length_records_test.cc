#include "millrace/ops/sources/fixed_length_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/records/skipped_region.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/ops/file_source_cases.h"
#include "tests/support/packed.h"
#include "tests/support/temporary_folder.h"

namespace millrace::fixed_length_records_test {
namespace {

using test::take_records;
using test::TakenRecords;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FixedLengthRecords : public ::testing::Test {
 protected:
  Shards file(const std::string& content) const {
    test::write_file(folder_.path("file"), content);
    return Shards::files({folder_.path("file")});
  }
  const test::TemporaryFolder folder_;
};

TEST_F(FixedLengthRecords, AreThoseOfTensorFlow) {
  const std::vector<nlohmann::json> cases = test::file_source_cases("fixed_length.jsonl");
  ASSERT_GE(cases.size(), 90);
  for (const nlohmann::json& one : cases) {
    std::vector<std::string> expected;
    for (const nlohmann::json& record : one.at("expect")) expected.push_back(test::bytes_of(record));
    const Compression compression = *compression_from_name(one.at("compression").get<std::string>());
    const TakenRecords taken =
        take_records(Dataset::fixed_length_records(file(test::packed(test::bytes_of(one.at("content")), compression)),
                                                   {.record_bytes = one.at("record_bytes").get<uint64_t>(),
                                                    .header_bytes = one.at("header_bytes").get<uint64_t>(),
                                                    .footer_bytes = one.at("footer_bytes").get<uint64_t>()},
                                                   {.compression = compression}));
    EXPECT_EQ(taken.records, expected) << one;
    EXPECT_EQ(!taken.error.empty(), one.at("error").get<bool>()) << one << taken.error;
  }
}

TEST_F(FixedLengthRecords, OfAFileThatDoesNotFitAreAnErrorWithAllNumbers) {
  const FixedLengthFormat format{.record_bytes = 2, .header_bytes = 2, .footer_bytes = 1};
  const std::string place = " (shard " + folder_.path("file") + ", offset ";
  EXPECT_EQ(take_records(Dataset::fixed_length_records(file("HHaabbcF"), format)).error,
            "truncated: 5 bytes between a header of 2 and a footer of 1 bytes are no whole number of records of 2 "
            "bytes: 1 are left over" +
                place + "0, record 0)");
  EXPECT_EQ(
      take_records(Dataset::fixed_length_records(file("HF"), format)).error,
      "truncated: a file of 2 bytes has no room for a header of 2 and a footer of 1 bytes" + place + "0, record 0)");
  const TakenRecords packed = take_records(Dataset::fixed_length_records(
      file(test::packed("HHaabbcF", Compression::kZlib)), format, {.compression = Compression::kZlib}));
  EXPECT_THAT(packed.records, ElementsAre("aa", "bb"));
  EXPECT_EQ(packed.error,
            "truncated: 5 bytes between a header of 2 and a footer of 1 bytes are no whole number of records of 2 "
            "bytes: 1 are left over" +
                place + "6, record 2)");
}

TEST_F(FixedLengthRecords, OfAFileThatIsCutAreTheWholeOnesWhereThePolicySaysSo) {
  for (const Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZstd}) {
    const Dataset dataset = Dataset::fixed_length_records(
        file(test::packed("HHaabbcF", compression)), {.record_bytes = 2, .header_bytes = 2, .footer_bytes = 1},
        {.compression = compression, .damage = {.action = DamagePolicy::kSkip}});
    const WorkerLimit workers(1);
    Pipeline pipeline = dataset.start({.threads = 1});
    for (const char* record : {"aa", "bb"}) EXPECT_EQ(pipeline.next()->values<std::string_view>("record")[0], record);
    EXPECT_FALSE(pipeline.next());
    ASSERT_EQ(pipeline.skipped().counts.regions, 1);
    EXPECT_THAT(pipeline.skipped().regions[0].to_string(),
                HasSubstr("file, bytes 6 to 8, 1 record from 2 on, epoch 0: truncated: 5 bytes between a header of 2"));
    const TakenRecords short_one = take_records(Dataset::fixed_length_records(
        file(test::packed("H", compression)), {.record_bytes = 2, .header_bytes = 2},
        {.compression = compression, .damage = {.action = DamagePolicy::kSkip, .max_bytes = 0}}));
    EXPECT_THAT(short_one.error, HasSubstr("damage_budget: 0 records and 1 bytes are damaged"));
  }
}

TEST_F(FixedLengthRecords, MayBeLongerThanAChunk) {
  std::string content(100000, 'h');
  for (int i = 0; i < 7; ++i) content += std::string(700000, static_cast<char>('a' + i));
  content += std::string(300000, 'f');
  for (const Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZstd}) {
    const TakenRecords taken = take_records(Dataset::fixed_length_records(
        file(test::packed(content, compression)),
        {.record_bytes = 700000, .header_bytes = 100000, .footer_bytes = 300000}, {.compression = compression}));
    ASSERT_EQ(taken.records.size(), 7) << taken.error;
    for (size_t i = 0; i < 7; ++i) {
      EXPECT_TRUE(taken.records[i] == std::string(700000, static_cast<char>('a' + i))) << i;
    }
  }
}

TEST_F(FixedLengthRecords, ThatCannotWorkAreRefused) {
  const auto message = [&](const FixedLengthFormat& format) -> std::string {
    try {
      (void)Dataset::fixed_length_records(file("x"), format, {.max_record_bytes = 10});
      return "accepted";
    } catch (const ErrorException& e) {
      return e.what();
    }
  };
  EXPECT_EQ(message({.record_bytes = 10}), "accepted");
  EXPECT_THAT(message({}), HasSubstr("record_bytes must be at least 1 and at most max_record_bytes = 10, is 0"));
  EXPECT_THAT(message({.record_bytes = 11}), HasSubstr("is 11"));
  EXPECT_THAT(
      take_records(Dataset::fixed_length_records(file(std::string(100, 'x')), {.record_bytes = 1, .footer_bytes = 90},
                                                 {.max_record_bytes = 10}))
          .error,
      HasSubstr("record_too_large: records of 1 bytes, a header of 0, a footer of 90: none may have more "
                "than 10"));
}

}  // namespace
}  // namespace millrace::fixed_length_records_test
