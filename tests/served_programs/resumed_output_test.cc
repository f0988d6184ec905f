// Runs in buckets that are gone on with: what is brought from there, what stays there, and what only a local folder
// has.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/storage/remote/test_bucket.h"
#include "tests/served_programs/writing_programs.h"
#include "tests/support/temporary_folder.h"

namespace millrace::resumed_output_test {
namespace {

namespace fs = std::filesystem;

using test::read_file;
using test::TestBucket;
using testing::HasSubstr;

class ResumedOutput : public test::WritingPrograms {
 protected:
  std::string url() const { return bucket_->url("run"); }
};

TEST_P(ResumedOutput, TakesTheListOfWhatWasSkippedFromACheckpointOfAnotherRun) {
  prepare_mlm();
  const std::string shard = fs::directory_iterator(folder_.path("shards/train"))->path();
  std::string bytes = read_file(shard);
  bytes[20] = static_cast<char>(bytes[20] ^ 1);  // in the payload of its first record
  test::write_file(shard, bytes);
  const auto skipping = [&](const std::string& out, const std::string& resume) {
    return mlm_training(out, {"--steps", "200", "--checkpoint-every", "80", "--damage", "skip", "--resume", resume});
  };
  run_well(skipping(url(), ""));
  run_well(skipping(bucket_->url("other"), url() + "/checkpoints/checkpoint-00000080"));
  const Files there = copy_of("run");
  const Files other = copy_of("other");
  EXPECT_THAT(there.at("checkpoints/checkpoint-00000080/skipped.jsonl"), HasSubstr(shard));
  EXPECT_EQ(other.at("skipped.jsonl"), there.at("skipped.jsonl"));
  EXPECT_TRUE(other.at("model/model.safetensors") == there.at("model/model.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(Stores, ResumedOutput, testing::Values(TestBucket::Store::kS3, TestBucket::Store::kGoogle),
                         [](const auto& test) { return to_string(test.param); });

}  // namespace
}  // namespace millrace::resumed_output_test
