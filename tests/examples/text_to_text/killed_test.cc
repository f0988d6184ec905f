// The three programs killed on the way: what is there is whole, and a run that follows makes what one makes that nobody
// has killed.
#include <chrono>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/trainer/checkpoint/training_checkpoint.h"
#include "tests/examples/text_to_text/questions.h"
#include "tests/examples/text_to_text/small_run.h"
#include "tests/examples/text_to_text/small_t5.h"
#include "tests/support/places.h"

namespace millrace::killed_test {
namespace {

namespace fs = std::filesystem;
using test::ChildProcess;
using test::ChildResult;
using test::files_below;
using test::read_file;
using test::run_child;
using test::SmallRun;
using test::write_file;

constexpr int kMostCalls = 500;

// Kills a program at its first call that changes a file, then at the second, and so on. `check` looks at what is there
// after each. Gives how often it was killed.
int kill_at_each_call(const std::vector<std::string>& command, const std::function<void()>& check) {
  for (int call = 1; call < kMostCalls; ++call) {
    SCOPED_TRACE(fmt::format("call {}", call));
    const ChildResult result = run_child(command, {.environment = {fmt::format("MILLRACE_FILE_FAULT=kill={}", call)}});
    check();
    if (result.exit_code == 0) return call - 1;
    EXPECT_EQ(result.signal, SIGKILL) << result.err;
    if (testing::Test::HasFailure()) return 0;
  }
  ADD_FAILURE() << "it never came to its end";
  return 0;
}

TEST(PrepareTextToTextKilled, LeavesOneSetOrAPartOfIt) {
  const test::TemporaryFolder folder;
  write_file(folder.path("questions.csv"), test::questions_csv(40));
  write_file(folder.path("tokenizer.json"), test::small_t5_tokenizer_json());
  const auto command = [&](const char* program, const std::string& seed) {
    return std::vector<std::string>{program,
                                    "--csv",
                                    folder.path("questions.csv"),
                                    "--tokenizer",
                                    folder.path("tokenizer.json"),
                                    "--out",
                                    folder.path("out"),
                                    "--seed",
                                    seed};
  };
  ASSERT_EQ(run_child(command(test::kPrepareTextToText, "2")).exit_code, 0);
  const auto new_set = files_below(folder.path("out"));
  ASSERT_EQ(run_child(command(test::kPrepareTextToText, "1")).exit_code, 0);
  const auto old_set = files_below(folder.path("out"));
  ASSERT_NE(new_set, old_set);
  const int kills = kill_at_each_call(command(test::kPrepareTextToTextWithFaults, "2"), [&] {
    int num_old = 0;
    int num_new = 0;
    for (const auto& [name, bytes] : files_below(folder.path("out"))) {
      if (name.starts_with(".incomplete-shards")) continue;
      const auto is_in = [&, &file = name, &text = bytes](const std::map<std::string, std::string>& set) {
        return set.contains(file) && set.at(file) == text;
      };
      EXPECT_TRUE(is_in(old_set) || is_in(new_set)) << name;
      if (!is_in(old_set)) ++num_new;
      if (!is_in(new_set)) ++num_old;
    }
    EXPECT_TRUE(num_old == 0 || num_new == 0)
        << num_old << " files of the old set and " << num_new << " of the new one";
    // The next one begins with an old set again, unless this is the last.
    if (fs::exists(folder.path("out/.incomplete-shards")) || num_new == 0) {
      ASSERT_EQ(run_child(command(test::kPrepareTextToText, "1")).exit_code, 0);
      ASSERT_EQ(files_below(folder.path("out")), old_set);
    }
  });
  EXPECT_EQ(files_below(folder.path("out")), new_set);
  EXPECT_GT(kills, 20);
}

class TrainedKilled : public testing::Test {
 protected:
  SmallRun run_;
};

TEST_F(TrainedKilled, PredictionLeavesTheOldAnswersOrTheNewOnes) {
  ASSERT_EQ(run_child(run_.training("run")).exit_code, 0);
  const auto command = [&](const char* program, const std::string& csv) {
    std::vector<std::string> arguments =
        run_.prediction("run/model", {"--csv", run_.path(csv), "--out", run_.path("answers.csv"), "--batch", "3"});
    arguments[0] = program;
    return arguments;
  };
  write_file(run_.path("old.csv"), test::questions_csv(5));
  write_file(run_.path("new.csv"), test::questions_csv(20));
  ASSERT_EQ(run_child(command(test::kPredictTextToText, "new.csv")).exit_code, 0);
  const std::string new_answers = read_file(run_.path("answers.csv"));
  ASSERT_EQ(run_child(command(test::kPredictTextToText, "old.csv")).exit_code, 0);
  const std::string old_answers = read_file(run_.path("answers.csv"));
  const int kills = kill_at_each_call(command(test::kPredictTextToTextWithFaults, "new.csv"), [&] {
    const std::string answers = read_file(run_.path("answers.csv"));
    EXPECT_TRUE(answers == old_answers || answers == new_answers);
  });
  EXPECT_EQ(read_file(run_.path("answers.csv")), new_answers);
  EXPECT_GE(kills, 3);
}

TEST_F(TrainedKilled, TrainingGoesOnToTheSameWeights) {
  const std::vector<std::string> options = {"--steps", "400", "--checkpoint-every", "5", "--evaluate-every", "100"};
  ASSERT_EQ(run_child(run_.training("whole", options)).exit_code, 0);
  constexpr int kKills = 2;
  const auto reports = [&] {
    const std::string log = read_file(run_.path("killed/log.jsonl"));
    return std::ranges::count(log, '\n');
  };
  int kills = 0;
  for (int64_t until = 20;; until += 60) {
    std::vector<std::string> more = options;
    const auto newest = newest_checkpoint(run_.path("killed/checkpoints"));
    if (newest) more.insert(more.end(), {"--resume", *newest});
    ChildProcess child(run_.training("killed", more));
    if (kills == kKills) {
      const ChildResult last = child.wait();
      ASSERT_EQ(last.exit_code, 0) << last.err;
      break;
    }
    while (child.running() && reports() < until) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    child.signal(SIGKILL);
    ASSERT_EQ(child.wait().signal, SIGKILL) << "it was done before it was killed";
    ++kills;
  }
  const std::string expected = read_file(run_.path("whole/model/model.safetensors"));
  EXPECT_FALSE(expected.empty());
  EXPECT_TRUE(read_file(run_.path("killed/model/model.safetensors")) == expected);
}

}  // namespace
}  // namespace millrace::killed_test
