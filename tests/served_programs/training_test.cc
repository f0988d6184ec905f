// Trainings whose shards lie in a bucket, of which one in ten requests fails; one is killed and gone on
// with: the weights of those on local files.
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/examples/mlm/preparation_text.h"
#include "tests/examples/mlm/small_mlm_run.h"
#include "tests/examples/quest/quest_table.h"
#include "tests/examples/quest/small_quest_run.h"
#include "tests/examples/text_to_text/small_run.h"
#include "tests/formats/storage/remote/object_server.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"

namespace millrace::served_training_test {
namespace {

using test::ChildProcess;
using test::ChildResult;
using test::ObjectServer;
using test::read_file;
using test::ServedFault;
using test::ServedRequest;

constexpr int kSteps = 1000;
constexpr size_t kFirstFailing = 3;  // of the requests, from 0

class ServedTraining : public testing::Test {
 protected:
  // Runs it, and puts the files below a local folder on the server.
  void prepare(const std::vector<std::string>& command, const std::string& folder, const std::string& prefix) {
    const ChildResult prepared = test::run_child(command);
    ASSERT_EQ(prepared.exit_code, 0) << prepared.err;
    for (const auto& [path, content] : test::files_below(folder)) server_.put("bucket/" + prefix + path, content);
  }
  // Trains with local files and with those of the bucket, which `command` is given the folder of.
  void expect_same_weights(const std::function<std::vector<std::string>(const std::string& set)>& command,
                           const std::string& local_set, const std::string& model) {
    std::map<std::string, std::string> weights;
    for (const std::string& set : {local_set, std::string("s3://bucket/set")}) {
      const std::string out = set == local_set ? "local" : "bucket";
      const ChildResult trained =
          test::run_child(test::with_options(command(set), {"--out", folder_.path(out)}), environment());
      ASSERT_EQ(trained.exit_code, 0) << trained.err;
      weights[out] = read_file(folder_.path(out + "/" + model + "/model.safetensors"));
    }
    EXPECT_NE(weights["local"], "");
    EXPECT_TRUE(weights["local"] == weights["bucket"]);
    EXPECT_TRUE(is_asked_again(kFirstFailing));
  }

  std::vector<std::string> arguments(const std::string& out, const std::string& set) const {
    return test::small_mlm_training(folder_.path(out), set,
                                    {"--shards", set + "/shards/", "--hidden", "64", "--steps", std::to_string(kSteps),
                                     "--checkpoint-every", "50", "--resume", "last"});
  }
  test::ChildOptions environment() const {
    return {.environment = {"AWS_ENDPOINT_URL=" + server_.url(""), "AWS_ACCESS_KEY_ID=AKIDEXAMPLE",
                            "AWS_SECRET_ACCESS_KEY=secret", "AWS_REGION=us-east-1", "AWS_CONFIG_FILE=/dev/null",
                            "AWS_SHARED_CREDENTIALS_FILE=/dev/null"}};
  }

  // Of this step or a later one.
  bool has_checkpoint(int step) const {
    const std::string least = fmt::format("checkpoint-{:08}", step);
    std::error_code none_yet;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path("bucket/checkpoints"), none_yet)) {
      const std::string name = entry.path().filename();
      if (name.size() == least.size() && name >= least) return true;
    }
    return false;
  }

  // Whether a later request was for the same bytes.
  bool is_asked_again(size_t number) const {
    const std::vector<ServedRequest> requests = server_.requests();
    if (requests.size() <= number) return false;
    const auto range_of = [](const ServedRequest& request) {
      const auto found = request.headers.find("range");
      return found == request.headers.end() ? std::string() : found->second;
    };
    const ServedRequest& first = requests[number];
    return std::any_of(
        requests.begin() + static_cast<std::ptrdiff_t>(number) + 1, requests.end(),
        [&](const ServedRequest& later) { return later.path == first.path && range_of(later) == range_of(first); });
  }

  // One request in ten fails. The first by its status: a reset in the body is none where an answer has no body.
  static ServedFault fault_of(const ServedRequest& request) {
    if (request.number % 10 != kFirstFailing) return {};
    return {.kind = request.number % 20 == kFirstFailing ? ServedFault::Kind::kStatus : ServedFault::Kind::kResetInBody,
            .status = 503};
  }

  const test::TemporaryFolder folder_;
  ObjectServer server_{{.fault = &fault_of, .s3 = {{.access_key_id = "AKIDEXAMPLE", .secret_access_key = "secret"}}}};
};

// Of the masked language model.
class ServedMlm : public ServedTraining {
 protected:
  void SetUp() override {
    prepare(test::small_mlm_preparation(folder_.path(), 300, {"--rows-per-group", "50"}), folder_.path("shards"),
            "set/shards/");
    server_.put("bucket/set/tokenizer.json", test::letter_tokenizer_json());
  }
};

TEST_F(ServedMlm, EndsWithTheWeightsOfALocalOneHoweverOftenItIsKilled) {
  const ChildResult local = test::run_child(arguments("local", folder_.path()));
  ASSERT_EQ(local.exit_code, 0) << local.err;
  for (const int step : {100, 400, 700}) {
    ChildProcess child(arguments("bucket", "s3://bucket/set"), environment());
    while (child.running() && !has_checkpoint(step)) child.take_output();
    child.signal(SIGKILL);
    const ChildResult killed = child.wait();
    ASSERT_EQ(killed.signal, SIGKILL) << killed.err << killed.out;
  }
  const ChildResult ended = test::run_child(arguments("bucket", "s3://bucket/set"), environment());
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_NE(read_file(folder_.path("local/model/model.safetensors")), "");
  EXPECT_TRUE(read_file(folder_.path("local/model/model.safetensors")) ==
              read_file(folder_.path("bucket/model/model.safetensors")));
  EXPECT_EQ(read_file(folder_.path("local/model/tokenizer.json")),
            read_file(folder_.path("bucket/model/tokenizer.json")));
}

// Also where requests fail; what was read once is not asked for again, by --check, the evaluations and later runs.
TEST_F(ServedMlm, TrainsFromACacheOnDisk) {
  const auto training = [&](const std::string& out, const std::string& set, const std::vector<std::string>& more) {
    return test::with_options(arguments(out, set), test::with_options({"--steps", "200"}, more));
  };
  const auto num_reads = [&] {
    size_t count = 0;
    for (const ServedRequest& request : server_.requests())
      count += request.path.find(".tfrecord") != std::string::npos;
    return count;
  };
  const std::vector<std::string> cached = {"--cache-dir", folder_.path("cache")};
  ASSERT_EQ(test::run_child(training("local", folder_.path(), {})).exit_code, 0);
  const auto run = [&](const std::string& out, const std::vector<std::string>& more) {
    const ChildResult result =
        test::run_child(training(out, "s3://bucket/set", test::with_options(cached, more)), environment());
    EXPECT_EQ(result.exit_code, 0) << result.err;
  };
  run("first", {});
  EXPECT_GT(num_reads(), 0U);
  const size_t before = num_reads();
  run("second", {"--check"});
  run("second", {});
  // What states compare shards by is asked of the store: a request for each shard, and those that fail.
  EXPECT_LT(num_reads() - before, before);
  size_t num_blocks = 0;
  for (const auto& [name, content] : test::files_below(folder_.path("cache")))
    num_blocks += name.ends_with("/00000000");
  size_t num_shards = 0;
  for (const auto& [name, content] : test::files_below(folder_.path("shards")))
    num_shards += name.ends_with(".tfrecord");
  EXPECT_EQ(num_blocks, num_shards) << "of those of the evaluation, too";
  const std::string weights = read_file(folder_.path("local/model/model.safetensors"));
  EXPECT_NE(weights, "");
  for (const char* out : {"first", "second"}) {
    EXPECT_TRUE(read_file(folder_.path(fmt::format("{}/model/model.safetensors", out))) == weights) << out;
  }
}

TEST_F(ServedMlm, SaysWhatASetNeeds) {
  const auto error_of = [&](const std::string& set) {
    const ChildResult result = test::run_child(arguments("refused", set), environment());
    EXPECT_EQ(result.exit_code, 1) << set;
    return result.err;
  };
  EXPECT_EQ(error_of("s3://bucket/none"),
            "train_mlm: io: no shards in s3://bucket/none/shards/train; prepare_tfrecord_shards writes them\n");
  EXPECT_NE(error_of(server_.url("set")).find("s3:// and gs:// have and HTTP has not"), std::string::npos);
}

TEST_F(ServedTraining, OfQuestionQualityEndsWithTheWeightsOfALocalOne) {
  const std::string tokenizer = folder_.path("tokenizer.json");
  test::write_file(tokenizer, test::letter_tokenizer_json());
  test::write_file(folder_.path("table.csv"), test::quest_csv(16));
  prepare(test::small_quest_preparation(folder_.path("table.csv"), tokenizer, folder_.path("shards")),
          folder_.path("shards"), "set/");
  const auto train = [&](const std::string& set) {
    return test::with_options(test::small_quest_training(set, tokenizer, "unused"), {"--fold", "0"});
  };
  expect_same_weights(train, folder_.path("shards"), "fold-0/model");
}

TEST_F(ServedTraining, OfATextToTextModelEndsWithTheWeightsOfALocalOne) {
  const test::SmallRun small;
  for (const auto& [path, content] : test::files_below(small.path("rows"))) server_.put("bucket/set/" + path, content);
  expect_same_weights(
      [&](const std::string& set) {
        return small.training("unused", {"--rows", set});
      },
      small.path("rows"), "model");
}

}  // namespace
}  // namespace millrace::served_training_test
