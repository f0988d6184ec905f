// What programs write into buckets: shards, runs with their checkpoints and models, predictions, indexes, states.
#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/remote/folder_download.h"
#include "millrace/formats/storage/remote/folder_leftovers.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "tests/examples/frozen_features/small_pictures.h"
#include "tests/examples/mlm/preparation_text.h"
#include "tests/examples/mlm/small_mlm_run.h"
#include "tests/examples/quest/quest_table.h"
#include "tests/examples/quest/small_quest_run.h"
#include "tests/examples/super_resolution/small_generator_run.h"
#include "tests/examples/text_to_text/small_run.h"
#include "tests/formats/storage/remote/test_bucket.h"
#include "tests/served_programs/writing_programs.h"
#include "tests/support/child_process.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::served_output_test {
namespace {

using test::BucketRequest;
using test::ChildProcess;
using test::ChildResult;
using test::files_below;
using test::read_file;
using test::TestBucket;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class ServedOutput : public test::WritingPrograms {};

TEST_P(ServedOutput, OfPreparationIsTheShardsOfALocalFolder) {
  prepare_mlm();
  const std::string url = bucket_->url("mlm/shards");
  const auto preparation = [&](int rows) {
    return test::with_options(test::small_mlm_preparation(folder_.path(), rows, {"--rows-per-group", "50"}),
                              {"--out", url, "--records-per-shard", "7"});
  };
  const ChildResult prepared = run_well(preparation(100));
  EXPECT_THAT(prepared.out, HasSubstr("written to " + url));
  run_well(test::with_options(test::small_mlm_preparation(folder_.path(), 100, {"--rows-per-group", "50"}),
                              {"--records-per-shard", "7"}));
  const Files local = files_below(folder_.path("shards"));
  EXPECT_EQ(copy_of("mlm/shards"), local);
  EXPECT_THAT(left_in_temporary_folder(), IsEmpty());

  // A smaller set takes its place as a whole.
  run_well(preparation(60));
  run_well(test::with_options(test::small_mlm_preparation(folder_.path(), 60, {"--rows-per-group", "50"}),
                              {"--records-per-shard", "7"}));
  const Files smaller = files_below(folder_.path("shards"));
  EXPECT_NE(smaller, local);
  EXPECT_EQ(copy_of("mlm/shards"), smaller);
  EXPECT_THAT(folder_leftovers(bucket_->url(""), std::chrono::seconds(0)).objects, IsEmpty());

  // And is read by its names.
  for (const auto& [shards, out] : {std::pair{folder_.path("shards"), "local"}, std::pair{url, "bucket"}}) {
    run_well(mlm_training(folder_.path(out), {"--shards", shards, "--steps", "30"}));
  }
  EXPECT_NE(read_file(folder_.path("local/model/model.safetensors")), "");
  EXPECT_TRUE(read_file(folder_.path("local/model/model.safetensors")) ==
              read_file(folder_.path("bucket/model/model.safetensors")));
}

TEST_P(ServedOutput, OfPreparationLeavesTheSetBeforeWhenItFails) {
  prepare_mlm();
  const auto preparation =
      test::with_options(test::small_mlm_preparation(folder_.path(), 100, {"--rows-per-group", "50"}),
                         {"--out", bucket_->url("shards"), "--records-per-shard", "7"});
  run_well(preparation);
  const Files before = copy_of("shards");
  const auto keys = bucket_->keys();
  is_refused_ = [](const BucketRequest& request) {
    return request.method == "PUT" && request.key.find("/train/dataset-2-") != std::string::npos;
  };
  refuses_ = true;
  const ChildResult failed = run(preparation);
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.err, AllOf(HasSubstr("/train/dataset-2-"), HasSubstr("403")));
  EXPECT_EQ(bucket_->keys(), keys);
  EXPECT_EQ(copy_of("shards"), before);
  EXPECT_THAT(left_in_temporary_folder(), IsEmpty());
}

TEST_P(ServedOutput, OfPreparationReplacesNothingElse) {
  prepare_mlm();
  bucket_->put("plain/train/thesis.txt", "years of work");
  const auto error_of = [&](const std::string& key) {
    const ChildResult result = run(test::with_options(
        test::small_mlm_preparation(folder_.path(), 100, {"--rows-per-group", "50"}), {"--out", bucket_->url(key)}));
    EXPECT_EQ(result.exit_code, 1) << key;
    return result.err;
  };
  EXPECT_THAT(error_of("plain"), AllOf(HasSubstr("plain/train"), HasSubstr("is in the way")));
  run_well(mlm_training(bucket_->url("run"), {"--steps", "20"}));
  for (const char* place : {"run", "run/"}) {
    EXPECT_THAT(error_of(place), HasSubstr("is in the way"));
    EXPECT_THAT(bucket_->keys("run/"), Contains("run/COMMIT"));
  }
  EXPECT_THAT(bucket_->keys("run/"), Contains("run/COMMIT"));
}

TEST_P(ServedOutput, OfATrainingEndsAsALocalOneHoweverOftenItIsKilled) {
  prepare_mlm();
  run_well(mlm_training(folder_.path("local")));
  const std::string url = bucket_->url("runs/a");
  for (const bool elsewhere : {false, true, false}) {
    kill_after(2, mlm_training(url));
    if (elsewhere) std::filesystem::remove_all(folder_.path("tmp"));  // the next has only what is in the bucket
  }
  const ChildResult ended = run_well(mlm_training(url));
  EXPECT_THAT(ended.out, HasSubstr(url + "/model"));
  EXPECT_THAT(ended.out, Not(HasSubstr("/tmp/")));
  const Files local = files_below(folder_.path("local"));
  const Files there = copy_of("runs/a");
  for (const char* name : {"model/model.safetensors", "model/config.json", "model/tokenizer.json"}) {
    ASSERT_TRUE(there.contains(name)) << name;
    EXPECT_TRUE(there.at(name) == local.at(name)) << name;
  }
  EXPECT_EQ(names_of(there), names_of(local));
  const auto steps_of = [](const Files& files) {
    const std::vector<int> steps = test::reported_steps(files.at("log.jsonl"));
    return std::set<int>(steps.begin(), steps.end());  // those after a killed one's last checkpoint are there twice
  };
  EXPECT_THAT(steps_of(local), testing::SizeIs(41));
  EXPECT_EQ(steps_of(there), steps_of(local));
  EXPECT_THAT(bucket_->keys("runs/a/LOCK"), IsEmpty());
  EXPECT_THAT(left_in_temporary_folder(), IsEmpty()) << "also of those that were killed";

  // What those that were killed left of sending is found.
  for (const std::string& left : folder_leftovers(bucket_->url(""), std::chrono::seconds(0)).objects) {
    EXPECT_THAT(left, StartsWith(url));
  }
  // And the model is read from there.
  const auto filled = [&](const std::string& model) {
    return run_well({test::kFillMask, "--model", model, "--text", "b[MASK]c", "--json"}).out;
  };
  EXPECT_EQ(filled(url + "/model"), filled(folder_.path("local/model")));
}

TEST_P(ServedOutput, OfATrainingIsKeptFromOtherRuns) {
  prepare_mlm();
  const std::string url = bucket_->url("run");
  ChildProcess child(mlm_training(url, {"--steps", "1000000"}), environment());
  while (child.running() && num_puts("run/COMMIT") < 1) child.take_output();
  // On another machine, whose folder of temporary files is another.
  std::filesystem::create_directory(folder_.path("tmp2"));
  const ChildResult other = test::run_child(mlm_training(url), {.environment = {"TMPDIR=" + folder_.path("tmp2")}});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr(fmt::format("another process is training in it: process {}", child.pid())));
  child.signal(SIGTERM);
  const ChildResult stopped = child.wait();
  EXPECT_EQ(stopped.exit_code, 128 + SIGTERM);
  EXPECT_THAT(stopped.err, HasSubstr("stopped at " + url + "/checkpoints/"));
  EXPECT_THAT(bucket_->keys("run/LOCK"), IsEmpty());
  // A run without --resume replaces nothing.
  const ChildResult refused = run(test::with_options(mlm_training(url), {"--resume", ""}));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr(url + " holds checkpoints of an earlier run"));
}

// A run that is to replace it, and fails before its first step, leaves it as it is.
TEST_P(ServedOutput, OfATrainingStaysUntilTheFirstStepOfTheNext) {
  prepare_mlm();
  const std::string url = bucket_->url("run");
  run_well(mlm_training(url, {"--steps", "30"}));
  const auto keys = bucket_->keys();
  const Files before = copy_of("run");
  run_well(mlm_training(folder_.path("local"), {"--steps", "20"}));
  const std::string other = folder_.path("local/checkpoints/checkpoint-00000020");
  const ChildResult refused = run(mlm_training(url, {"--steps", "30", "--resume", other}));
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, HasSubstr(other + " is not one of its checkpoints"));
  const std::vector<std::string> anew = mlm_training(url, {"--steps", "30", "--resume", "", "--overwrite"});
  std::filesystem::create_directory(folder_.path("good"));
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path("shards/train"))) {
    std::string bytes = read_file(entry.path());
    test::write_file(folder_.path("good/" + entry.path().filename().string()), bytes);
    for (size_t record = 0; record < bytes.size();) {  // the first batch cannot be made
      uint64_t size = 0;
      std::memcpy(&size, &bytes[record], sizeof(size));
      bytes[record + 12] ^= 1;
      record += size + 16;
    }
    test::write_file(entry.path(), bytes);
  }
  const ChildResult failed = run(anew);
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.err, HasSubstr("payload_crc"));
  EXPECT_EQ(bucket_->keys(), keys);
  EXPECT_EQ(copy_of("run"), before);
  EXPECT_THAT(left_in_temporary_folder(), IsEmpty());
  // One that makes its steps replaces it.
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path("good"))) {
    std::filesystem::copy_file(entry.path(), folder_.path("shards/train/") + entry.path().filename().string(),
                               std::filesystem::copy_options::overwrite_existing);
  }
  run_well(anew);
  EXPECT_NE(bucket_->keys(), keys);
  const Files after = copy_of("run");
  EXPECT_THAT(after, testing::Contains(testing::Key("model/model.safetensors")));
  EXPECT_THAT(after.at("log.jsonl"), AllOf(HasSubstr("\"path\":\"" + url + "/checkpoints/checkpoint-00000020\""),
                                           Not(HasSubstr(folder_.path("tmp")))));
}

TEST_P(ServedOutput, OfATrainingIsReplacedByOneThatGoesOnAndMakesNoStep) {
  prepare_mlm();
  const std::string url = bucket_->url("run");
  run_well(mlm_training(url, {"--steps", "30"}));
  run_well(mlm_training(folder_.path("local"), {"--steps", "40"}));
  const std::string last = "checkpoints/checkpoint-00000040/";
  const ChildResult ended = run_well(mlm_training(
      url, {"--steps", "40", "--resume", folder_.path("local/checkpoints/checkpoint-00000040"), "--overwrite"}));
  EXPECT_THAT(ended.out, HasSubstr(url + "/model"));
  const Files there = copy_of("run");
  EXPECT_TRUE(there.at("model/model.safetensors") == read_file(folder_.path("local/model/model.safetensors")));
  EXPECT_THAT(names_of(there), Contains(StartsWith(last)));
  for (const std::string& name : names_of(there)) {
    EXPECT_TRUE(!name.starts_with("checkpoints/checkpoint-") || name.starts_with(last)) << name;
  }
  EXPECT_THAT(left_in_temporary_folder(), IsEmpty());
}

// Neither a set of shards nor what somebody has copied there is exchanged for a run.
TEST_P(ServedOutput, OfATrainingReplacesNothingElse) {
  prepare_mlm();
  run_well(test::with_options(test::small_mlm_preparation(folder_.path(), 100, {"--rows-per-group", "50"}),
                              {"--out", bucket_->url("shards")}));
  bucket_->put("copied/model/config.json", "{}");
  const auto keys = bucket_->keys();
  for (const auto& [place, named] :
       {std::pair{"shards", "shards/"}, std::pair{"shards/", "shards/"}, std::pair{"copied", "copied/model"}}) {
    for (const char* resume : {"", "last"}) {
      const ChildResult refused =
          run(test::with_options(mlm_training(bucket_->url(place)), {"--resume", resume, "--overwrite"}));
      EXPECT_EQ(refused.exit_code, 1);
      EXPECT_THAT(refused.err, AllOf(HasSubstr(bucket_->url(named)), HasSubstr("is in the way")));
      EXPECT_EQ(bucket_->keys(), keys) << place;
    }
  }
  for (const char* place : {"s3://bucket-alone", "https://host/run"}) {
    const ChildResult refused = run(mlm_training(place));
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_THAT(refused.err, HasSubstr("to one of a bucket"));
  }
  EXPECT_THAT(left_in_temporary_folder(), IsEmpty());
}

// Its lock is taken by another: what it has stays, and is not sent.
TEST_P(ServedOutput, OfATrainingThatLosesItsLockIsKept) {
  prepare_mlm();
  const std::string url = bucket_->url("run");
  ChildProcess child(mlm_training(url, {"--steps", "1000000"}), environment());
  while (child.running() && num_puts("run/COMMIT") < 1) child.take_output();
  bucket_->put("run/LOCK", R"({"id": "another", "host": "elsewhere", "process": 7, "started": "1", "machine": "another",
                              "renewed": 1})");
  const ChildResult ended = child.wait();
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr("another process has taken the lock: process 7 on elsewhere"));
  EXPECT_THAT(bucket_->content("run/LOCK").value_or(""), HasSubstr("elsewhere"));
  const auto left = left_in_temporary_folder();
  ASSERT_EQ(left.size(), 1U) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr(left[0]));
  EXPECT_TRUE(std::filesystem::exists(folder_.path("tmp/" + left[0] + "/checkpoints")));
}

TEST_P(ServedOutput, OfATrainingThatCannotBeSentIsNotLost) {
  prepare_mlm();
  is_refused_ = [](const BucketRequest& request) {
    return request.method == "PUT" && request.key.ends_with("model.safetensors");
  };
  refuses_ = true;
  const ChildResult failed = run(mlm_training(bucket_->url("run")));
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.err, AllOf(HasSubstr("403"), HasSubstr("; what it lacks is in ")));
  const auto left = left_in_temporary_folder();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_NE(read_file(folder_.path("tmp/" + left[0] + "/model/model.safetensors")), "");
  EXPECT_THAT(bucket_->keys("run/"), IsEmpty());
}

TEST_P(ServedOutput, OfQuestionQualityIsPredictedFrom) {
  const std::string tokenizer = folder_.path("tokenizer.json");
  const std::string table = folder_.path("table.csv");
  test::write_file(tokenizer, test::letter_tokenizer_json());
  test::write_file(table, test::quest_csv(16));
  Files predictions;
  for (const std::string& out : {folder_.path("out"), bucket_->url("out")}) {
    run_well(test::small_quest_preparation(table, tokenizer, out + "/shards"));
    run_well(test::small_quest_training(out + "/shards", tokenizer, out));
    run_well({test::kPredictQuest, "--models", out, "--csv", table, "--out", out + "/submission.csv"});
    predictions[out] = out == folder_.path("out") ? read_file(out + "/submission.csv")
                                                  : bucket_->content("out/submission.csv").value_or("");
  }
  EXPECT_NE(predictions[folder_.path("out")], "");
  EXPECT_EQ(predictions[folder_.path("out")], predictions[bucket_->url("out")]);
}

TEST_P(ServedOutput, OfATextToTextModelIsPredictedFrom) {
  const test::SmallRun small;
  Files predictions;
  for (const std::string& out : {small.path("out"), bucket_->url("out")}) {
    run_well(small.training("unused", {"--out", out}));
    const std::string answers = out + "/answers.csv";
    run_well({test::kPredictTextToText, "--model", out + "/model", "--rows", small.path("rows"), "--out", answers});
    predictions[out] = out == small.path("out") ? read_file(answers) : bucket_->content("out/answers.csv").value_or("");
  }
  EXPECT_NE(predictions[small.path("out")], "");
  EXPECT_EQ(predictions[small.path("out")], predictions[bucket_->url("out")]);
}

TEST_P(ServedOutput, OfSuperResolutionIsTrainedFrom) {
  const test::SmallGeneratorRun small;
  const std::string set = bucket_->url("set");
  run_well({test::kPrepareSuperResolution, "--pictures", small.path("pictures"), "--held-out", "p3", "--crop", "16",
            "--out", set});
  EXPECT_EQ(copy_of("set"), files_below(small.path("shards")));
  for (const auto& [shards, out] : {std::pair{small.path("shards"), "local"}, std::pair{set, "bucket"}}) {
    run_well(small.training_on({"--shards", shards}, test::kTrainSuperResolution, out));
  }
  EXPECT_NE(read_file(small.path("local/model/model.safetensors")), "");
  EXPECT_TRUE(read_file(small.path("local/model/model.safetensors")) ==
              read_file(small.path("bucket/model/model.safetensors")));
  // Pictures that a model makes larger are objects.
  const auto upscale = [&](const std::vector<std::string>& out) {
    run_well(test::with_options({test::kUpscaleSuperResolution, "--model", small.path("local/model")}, out));
  };
  upscale({small.path("pictures/p0.png"), small.path("large.png")});
  upscale({small.path("pictures/p0.png"), bucket_->url("large.png")});
  upscale({small.path("pictures"), "--out", bucket_->url("large")});
  EXPECT_NE(read_file(small.path("large.png")), "");
  EXPECT_TRUE(bucket_->content("large.png") == read_file(small.path("large.png")));
  EXPECT_TRUE(bucket_->content("large/p0.png") == read_file(small.path("large.png")));
  EXPECT_THAT(bucket_->keys("large/"), testing::SizeIs(4));
}

// Also with a network that is drawn, which lies beside the shards.
TEST_P(ServedOutput, OfFrozenFeaturesIsTrainedFrom) {
  test::draw_pictures(folder_.path("pictures"), 6);
  for (const auto& [set, out] : {std::pair{folder_.path("set"), "local"}, std::pair{bucket_->url("set"), "bucket"}}) {
    run_well({test::kPrepareFrozenFeatures, "--pictures", folder_.path("pictures"), "--out", set, "--size", "16"});
    run_well(test::small_training(set, folder_.path(out)));
  }
  EXPECT_EQ(copy_of("set"), files_below(folder_.path("set")));
  EXPECT_THAT(copy_of("set"), Contains(testing::Key("network.safetensors")));
  EXPECT_NE(read_file(folder_.path("local/model/model.safetensors")), "");
  EXPECT_TRUE(read_file(folder_.path("local/model/model.safetensors")) ==
              read_file(folder_.path("bucket/model/model.safetensors")));
}

TEST_P(ServedOutput, OfWritersThatWereKilledIsListedAndRemoved) {
  prepare_mlm();
  const std::string url = bucket_->url("mlm/shards");
  run_well(test::with_options(test::small_mlm_preparation(folder_.path(), 100, {"--rows-per-group", "50"}),
                              {"--out", url, "--records-per-shard", "7"}));
  const auto keys = bucket_->keys();
  const std::string left = "mlm/shards/20240101T000000Z-01234567/train/dataset-0-7.tfrecord";
  const std::string of_elements = "mlm/cache/elements-1700000000000-00000.tfrecord";
  for (const std::string& key : {left, of_elements}) bucket_->put(key, "left");
  bucket_->put("mlm2/20240101T000000Z-01234567/a", "of another folder");
  const auto leftovers = [&](const std::vector<std::string>& more) {
    return run_well(test::with_options({test::kBucketLeftovers, bucket_->url("mlm")}, more)).out;
  };
  EXPECT_THAT(leftovers({}), AllOf(HasSubstr(bucket_->url(left)), HasSubstr(bucket_->url(of_elements)),
                                   HasSubstr("2 objects and 0 unfinished uploads\n")));
  EXPECT_THAT(leftovers({"--older-than", "3000000000", "--json"}), HasSubstr("\"objects\":0"));
  EXPECT_NE(bucket_->content(left), std::nullopt);
  run_well({test::kBucketLeftovers, bucket_->url("mlm"), "--remove"});
  EXPECT_EQ(bucket_->keys("mlm/"), keys);
  EXPECT_THAT(bucket_->keys("mlm2/"), testing::SizeIs(1));
  for (const std::string& place : {std::string("/tmp"), std::string("https://host/a"), std::string("s3://")}) {
    EXPECT_EQ(run({test::kBucketLeftovers, place}).exit_code, 1) << place;
  }
}

TEST_P(ServedOutput, OfToolsLiesBesideTheShards) {
  prepare_mlm();
  const std::string url = bucket_->url("shards");
  for (const auto& [name, content] : files_below(folder_.path("shards"))) bucket_->put("shards/" + name, content);
  const std::string shards = url + "/train/*.tfrecord";
  run_well({test::kDatasetIndex, shards});
  EXPECT_THAT(bucket_->keys("shards/train/"), Contains(testing::EndsWith(".tfrecord.index")));
  run_well({test::kDatasetVerify, shards});
  // Of a folder that was exchanged as a whole the shards are named, too.
  run_well(test::with_options(test::small_mlm_preparation(folder_.path(), 100, {"--rows-per-group", "50"}),
                              {"--out", bucket_->url("set")}));
  for (const auto& [name, content] : copy_of("set")) {
    if (name.ends_with(".tfrecord")) run_well({test::kDatasetVerify, bucket_->url("set/" + name)});
  }
  const std::string state = bucket_->url("state");
  run_well({test::kDatasetBench, "read", "--shards", shards, "--state", state, "--batches", "3", "--state-every", "1",
            "--html", bucket_->url("page.html")});
  EXPECT_NE(bucket_->content("state"), std::nullopt);
  EXPECT_THAT(bucket_->content("page.html").value_or(""), HasSubstr("<html"));
  run_well({test::kDatasetBench, "read", "--shards", shards, "--resume", state});
}

INSTANTIATE_TEST_SUITE_P(Stores, ServedOutput, testing::Values(TestBucket::Store::kS3, TestBucket::Store::kGoogle),
                         [](const auto& test) { return to_string(test.param); });

}  // namespace
}  // namespace millrace::served_output_test
