// Runs in buckets that are gone on with: what is brought from there, what stays there, and what only a local folder
// has.
#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/remote/folder_manifest.h"
#include "millrace/formats/storage/remote/folder_upload.h"
#include "tests/examples/mlm/small_mlm_run.h"
#include "tests/formats/storage/remote/test_bucket.h"
#include "tests/served_programs/writing_programs.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"

namespace millrace::resumed_output_test {
namespace {

namespace fs = std::filesystem;

using test::BucketRequest;
using test::ChildResult;
using test::files_below;
using test::read_file;
using test::reported_steps;
using test::TestBucket;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// `checkpoint-00000050` of a file in it; empty: of others.
std::string checkpoint_of(const std::string& name) {
  const size_t begin = name.find("checkpoint-");
  return name.starts_with("checkpoints/checkpoint-") ? name.substr(begin, name.find('/', begin) - begin) : "";
}
int step_of(const std::string& checkpoint) { return checkpoint.empty() ? 0 : std::stoi(checkpoint.substr(11)); }

class ResumedOutput : public test::WritingPrograms {
 protected:
  static constexpr const char* kCommit = "run/COMMIT";

  // Long enough to be killed on the way.
  std::vector<std::string> training(const std::string& out, const std::vector<std::string>& more = {}) const {
    return mlm_training(
        out, test::with_options({"--steps", "1000", "--checkpoint-every", "50", "--evaluate-every", "50"}, more));
  }
  std::string url() const { return bucket_->url("run"); }
  FolderManifest manifest() const {
    return parse_folder_manifest(bucket_->content(kCommit).value_or("")).value_or(FolderManifest());
  }
  static std::set<std::string> checkpoints_in(const FolderManifest& manifest) {
    std::set<std::string> checkpoints;
    for (const FolderFile& file : manifest.files) checkpoints.insert(checkpoint_of(file.name));
    checkpoints.erase("");
    return checkpoints;
  }
  std::string newest_there() const {
    const std::set<std::string> there = checkpoints_in(manifest());
    return there.empty() ? "" : *there.rbegin();
  }
  // Of the run that works in `tmp`.
  std::string newest_here() const {
    std::string newest;
    for (const std::string& name : left_in_temporary_folder()) {
      std::error_code none_yet;
      for (const auto& entry : fs::directory_iterator(folder_.path("tmp/" + name + "/run/checkpoints"), none_yet)) {
        const std::string checkpoint = entry.path().filename();
        if (checkpoint.starts_with("checkpoint-")) newest = std::max(newest, checkpoint);
      }
    }
    return newest;
  }
  // Gives the folder one more file.
  FolderManifest with_file(const std::string& name) const {
    FolderUpload upload(url(), {.reuses = true});
    for (const FolderFile& file : upload.earlier().files) upload.keep(file);
    upload.put(name, "{}");
    upload.commit();
    return manifest();
  }
  // By the run that ended so: the only folder that is left has this checkpoint.
  void expect_put_away(const std::string& checkpoint, const ChildResult& ended) const {
    const std::vector<std::string> left = left_in_temporary_folder();
    ASSERT_THAT(left, SizeIs(1));
    EXPECT_THAT(ended.err, HasSubstr(fmt::format("what it had is in {}\n", folder_.path("tmp/" + left[0]))));
    EXPECT_NE(read_file(folder_.path(fmt::format("tmp/{}/checkpoints/{}/model.safetensors", left[0], checkpoint))), "");
  }
};

TEST_P(ResumedOutput, BringsNoOlderCheckpointNoBestModelsAndNoModel) {
  prepare_mlm();
  const auto keeping = [&](const std::string& out) { return training(out, {"--keep-best", "2"}); };
  run_well(keeping(folder_.path("local")));
  kill_after(5, keeping(url()));
  const FolderManifest before = with_file("model/config.json");
  const std::string newest = newest_there();
  std::set<std::string> needed;
  std::set<std::string> others;
  for (const FolderFile& file : before.files) {
    const std::string checkpoint = checkpoint_of(file.name);
    const bool is_needed =
        checkpoint.empty() ? !file.name.starts_with("best/") && !file.name.starts_with("model/") : checkpoint == newest;
    (is_needed ? needed : others).insert("run/" + file.object);
  }
  for (const std::string& object : needed) others.erase(object);  // one may be that of several links
  ASSERT_THAT(others, AllOf(Contains(HasSubstr("/checkpoints/")), Contains(HasSubstr("/model/"))));

  const size_t num_requests = bucket_->requests().size();
  run_well(keeping(url()), "tmp2");
  std::set<std::string> read;
  const std::vector<BucketRequest> requests = bucket_->requests();
  for (size_t i = num_requests; i < requests.size(); ++i) {
    if (requests[i].method == "GET") read.insert(requests[i].key);
  }
  for (const std::string& object : needed) EXPECT_THAT(read, Contains(object));
  for (const std::string& object : others) EXPECT_THAT(read, Not(Contains(object)));

  const Files local = files_below(folder_.path("local"));
  const Files there = copy_of("run");
  EXPECT_EQ(names_of(there), names_of(local));
  for (const auto& [name, bytes] : local) {
    if (!name.ends_with(".safetensors")) continue;
    EXPECT_TRUE(there.contains(name) && there.at(name) == bytes) << name;
  }
  EXPECT_THAT(reported_steps(local.at("log.jsonl")), SizeIs(101));
  EXPECT_EQ(reported_steps(there.at("log.jsonl")), reported_steps(local.at("log.jsonl")));
  for (const FolderFile& file : before.files) {
    if (!file.name.starts_with("tensorboard/")) continue;
    EXPECT_THAT(there, Contains(testing::Key(file.name)));
  }
}

// By a run that keeps no best models and so leaves those that are there, as in a local folder.
TEST_P(ResumedOutput, LeavesWhatItDidNotBringUntilThereAreOthers) {
  prepare_mlm();
  kill_after(5, training(url(), {"--keep-best", "2"}));
  const FolderManifest before = with_file("model/config.json");
  const std::set<std::string> checkpoints = checkpoints_in(before);
  ASSERT_THAT(checkpoints, SizeIs(3));
  kill_after(1, training(url(), {"--keep-best", "0"}), "tmp2");

  const FolderManifest after = manifest();
  const std::string second = *std::next(checkpoints.begin());
  const std::string third = *checkpoints.rbegin();
  EXPECT_THAT(checkpoints_in(after), ElementsAre(second, third, fmt::format("checkpoint-{:08}", step_of(third) + 50)));
  std::set<std::string> kinds;
  for (const FolderFile& file : before.files) {
    const bool stays =
        file.name.starts_with("best/") || file.name.starts_with("model/") || checkpoint_of(file.name) == second;
    if (!stays) continue;
    kinds.insert(file.name.substr(0, file.name.find('/')));
    const FolderFile* const left = after.find(file.name);
    ASSERT_NE(left, nullptr) << file.name;
    EXPECT_EQ(left->object, file.object);
  }
  EXPECT_THAT(kinds, ElementsAre("best", "checkpoints", "model"));
  EXPECT_EQ(copy_of("run").size(), after.files.size()) << "all of it is there";
}

TEST_P(ResumedOutput, GoesOnWithCheckpointsThatCouldNotBeSent) {
  prepare_mlm();
  run_well(training(folder_.path("local")));
  kill_after(1, training(url()));
  const std::string newest = newest_here();
  ASSERT_GT(newest, newest_there());
  const std::string events = "tensorboard/events.out.tfevents.1.elsewhere";  // of a run there that went on meanwhile
  with_file(events);
  const ChildResult ended = run_well(training(url()));
  EXPECT_THAT(ended.err, HasSubstr("going on in " + folder_.path("tmp/")));
  const Files local = files_below(folder_.path("local"));
  const Files there = copy_of("run");
  EXPECT_EQ(names_of(there), names_of(local));
  EXPECT_TRUE(there.at("model/model.safetensors") == local.at("model/model.safetensors"));
  EXPECT_THAT(there, Contains(testing::Key(events)));
  EXPECT_THAT(there.at("log.jsonl"), HasSubstr(fmt::format(R"({{"event":"start","step":{},)", step_of(newest))));
  EXPECT_THAT(left_in_temporary_folder(), IsEmpty());
}

// Where the store does not answer yet, and for a run that goes on with another training.
TEST_P(ResumedOutput, RemovesNoCheckpointsThatCouldNotBeSent) {
  prepare_mlm();
  kill_after(1, training(url()));
  const std::string newest = newest_here();
  is_refused_ = [](const BucketRequest& request) { return request.method == "GET" && request.key == kCommit; };
  refuses_ = true;
  EXPECT_EQ(run(training(url())).exit_code, 1);
  refuses_ = false;
  EXPECT_EQ(newest_here(), newest);

  run_well(training(url(), {"--steps", "50", "--resume", "", "--overwrite"}), "tmp2");
  expect_put_away(newest, run_well(training(url(), {"--steps", "50"})));
}

// Of one that was to replace the training in the bucket, also where it began from a checkpoint of that and so has its
// id.
TEST_P(ResumedOutput, RemovesNoCheckpointsOfAnotherTrainingForTheirNumbers) {
  prepare_mlm();
  kill_after(1, training(url()));
  ASSERT_EQ(newest_there(), "checkpoint-00000050");
  copy_of("run");
  const std::string branch = folder_.path("copy-1/checkpoints/checkpoint-00000050");
  // The first is newer than what is in the bucket, which then ends.
  for (const auto& [resume, is_newer] :
       {std::pair(branch, true), std::pair(branch, false), std::pair(std::string(), false)}) {
    fs::remove_all(folder_.path("tmp"));
    kill_after(0, training(url(), {"--resume", resume, "--overwrite"}));
    const std::string newest = newest_here();
    ASSERT_EQ(newest > newest_there(), is_newer);
    expect_put_away(newest, run_well(training(url())));
    EXPECT_EQ(newest_there(), "checkpoint-00001000");
  }
}

// Nothing in the bucket says that it is of the same training.
TEST_P(ResumedOutput, RemovesNoCheckpointsOfWhichNoneWasEverSent) {
  prepare_mlm();
  kill_after(0, training(url()));
  const std::string newest = newest_here();
  ASSERT_EQ(newest_there(), "");
  expect_put_away(newest, run_well(training(url(), {"--steps", "50"})));
}

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
