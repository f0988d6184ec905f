// The three programs killed on the way: what is there is whole, and a run that follows makes what one makes that nobody
// has killed.
#include <filesystem>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/examples/text_to_text/questions.h"
#include "tests/examples/text_to_text/small_run.h"
#include "tests/examples/text_to_text/small_t5.h"
#include "tests/support/killed_runs.h"
#include "tests/support/places.h"
#include "tests/trainer/training_files.h"

namespace millrace::killed_test {
namespace {

namespace fs = std::filesystem;
using test::ChildResult;
using test::files_below;
using test::kill_at_each_call;
using test::read_file;
using test::run_child;
using test::SmallRun;
using test::write_file;

// Loss and rate of each report, and what each evaluation says, by step.
std::map<std::string, std::string> numbers_in(const std::string& log) {
  std::map<std::string, std::string> numbers;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["event"] == "report") {
      numbers[fmt::format("report {}", json["step"].dump())] = json["loss"].dump() + json["learning_rate"].dump();
    } else if (json["event"] == "evaluation") {
      numbers[fmt::format("evaluation {}", json["step"].dump())] = json["loss"].dump() + json["metrics"].dump();
    }
  }
  return numbers;
}

int64_t last_step(const std::string& log) {
  int64_t step = 0;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["event"] == "report") step = json["step"];
  }
  return step;
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
  // Gives how many files are of the new set alone.
  const auto look = [&] {
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
    return num_new;
  };
  const auto put_old_back = [&] {
    ASSERT_EQ(run_child(command(test::kPrepareTextToText, "1")).exit_code, 0);
    ASSERT_EQ(files_below(folder.path("out")), old_set);
  };
  const auto check = [&] {
    const int num_new = look();
    // The next one begins with an old set again, unless this is the last.
    if (fs::exists(folder.path("out/.incomplete-shards")) || num_new == 0) put_old_back();
  };
  const int kills = kill_at_each_call(command(test::kPrepareTextToTextWithFaults, "2"), check);
  EXPECT_EQ(files_below(folder.path("out")), new_set);
  EXPECT_GT(kills, 20);
  test::kill_at_random_moments(command(test::kPrepareTextToText, "2"), [&] {
    look();
    put_old_back();
  });
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
  const auto check = [&] {
    const std::string answers = read_file(run_.path("answers.csv"));
    EXPECT_TRUE(answers == old_answers || answers == new_answers);
  };
  const int kills = kill_at_each_call(command(test::kPredictTextToTextWithFaults, "new.csv"), check);
  EXPECT_EQ(read_file(run_.path("answers.csv")), new_answers);
  EXPECT_GE(kills, 3);
  test::kill_at_random_moments(command(test::kPredictTextToText, "old.csv"), [&] {
    check();
    write_file(run_.path("answers.csv"), new_answers);
  });
}

TEST_F(TrainedKilled, TrainingGoesOnToTheSameFilesAndAnswers) {
  constexpr int64_t kSteps = 400;
  constexpr int64_t kFirstCheckpoint = 5;
  const auto training = [&](const std::string& out, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--steps", std::to_string(kSteps), "--checkpoint-every", std::to_string(kFirstCheckpoint),
                             "--evaluate-every", "100", "--keep-best", "1", "--keep-checkpoints", "1"});
    return run_.training(out, more);
  };
  const auto log = [&](const std::string& out) { return read_file(run_.path(out + "/log.jsonl")); };
  const auto files = [&](const std::string& out) {
    auto found = testing_models::training_files(run_.path(out + "/checkpoints"));
    found.merge(testing_models::training_files(run_.path(out + "/best")));
    found["model"] = read_file(run_.path(out + "/model/model.safetensors"));
    EXPECT_EQ(run_child(run_.prediction(out + "/best",
                                        {"--csv", run_.path("questions.csv"), "--out", run_.path("answers.csv")}))
                  .exit_code,
              0);
    found["answers"] = read_file(run_.path("answers.csv"));
    return found;
  };
  ASSERT_EQ(run_child(training("whole")).exit_code, 0);
  const auto expected = files("whole");
  const auto expected_numbers = numbers_in(log("whole"));
  ASSERT_EQ(expected_numbers.size(), kSteps + 4);
  EXPECT_FALSE(expected.at("model").empty());

  test::KillHistogram histogram(kFirstCheckpoint, kSteps);
  for (uint64_t run = 0; !histogram.has_enough(); ++run) {
    const std::string out = fmt::format("killed{}", run);
    const auto start = [&](uint64_t attempt) {
      return training(out, {"--resume", "last", "--threads", std::to_string(1 + attempt % 2)});
    };
    const ChildResult last = histogram.kill_until_it_ends(
        {.log = run_.path(out + "/log.jsonl"), .command = start, .steps_in = &last_step}, run);
    ASSERT_EQ(last.exit_code, 0) << last.err;
    EXPECT_TRUE(files(out) == expected) << out;
    EXPECT_EQ(numbers_in(log(out)), expected_numbers) << out;
  }
  fmt::print("{}\n", histogram.to_string());
  EXPECT_GE(histogram.num_that_count(), test::num_kills());
}

}  // namespace
}  // namespace millrace::killed_test
