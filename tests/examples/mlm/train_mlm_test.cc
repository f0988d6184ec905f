// train_mlm and fill_mask as processes, on a text of letters.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <thread>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/example/writer.h"
#include "millrace/formats/safetensors/reader.h"
#include "millrace/formats/tfrecord/writer.h"
#include "millrace/trainer/checkpoint/training_checkpoint.h"
#include "tests/examples/mlm/preparation_text.h"
#include "tests/examples/mlm/small_mlm_run.h"
#include "tests/support/child_process.h"
#include "tests/support/killed_runs.h"
#include "tests/support/places.h"
#include "tests/support/stalled_child.h"
#include "tests/trainer/training_files.h"

namespace millrace::test::train_mlm_test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

// Tokenizer and shards of rows of 16 letters, made once; trainings of a tiny model on them.
class TrainMlm : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    data_ = new TemporaryFolder;
    const ChildResult prepared = run_child(small_mlm_preparation(data_->path(), 900, {"--rows-per-group", "100"}));
    ASSERT_EQ(prepared.exit_code, 0) << prepared.err;
  }
  static void TearDownTestSuite() {
    delete data_;
    data_ = nullptr;
  }

  std::vector<std::string> command(const std::string& out, const std::vector<std::string>& more = {}) const {
    const std::vector<std::string> usual = {"--steps",        "30", "--warmup-steps", "3",
                                            "--report-every", "1",  "--threads",      "2"};
    return with_options(small_mlm_training(folder_.path(out), data_->path(), usual), more);
  }

  // The error of a run that must fail, which is one line.
  std::string refusal(const std::vector<std::string>& more, const ChildOptions& options = {}) const {
    const ChildResult result = run_child(command("refused", more), options);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.out, "");
    const std::string last = result.err.substr(result.err.rfind("train_mlm: "));
    EXPECT_EQ(std::ranges::count(last, '\n'), 1) << result.err;
    return last;
  }

  std::string model_file(const std::string& out) const {
    return read_file(folder_.path(out + "/model/model.safetensors"));
  }

  // Paths of TensorBoard's files right in OUT/tensorboard.
  std::vector<std::string> event_files(const std::string& out) const {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(folder_.path(out + "/tensorboard"))) {
      if (entry.path().filename().string().starts_with("events.out.tfevents.")) files.push_back(entry.path().string());
    }
    return files;
  }

  static TemporaryFolder* data_;
  TemporaryFolder folder_;
};

TemporaryFolder* TrainMlm::data_ = nullptr;

TEST_F(TrainMlm, TrainsEvaluatesAndSavesAModelThatFillMaskReads) {
  const ChildResult result =
      run_child(command("run", {"--json", "--steps", "60", "--global-batch", "64", "--checkpoint-every", "0",
                                "--learning-rate", "0.01", "--initializer-range", "0.02"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json summary = nlohmann::json::parse(result.out);
  EXPECT_EQ(summary.at("steps"), 60);
  const double uniform = summary.at("ln_vocab_size").get<double>();
  EXPECT_NEAR(uniform, std::log(32.0), 1e-12);
  EXPECT_NEAR(summary.at("first_loss").get<double>(), uniform, 0.03 * uniform);
  EXPECT_LT(summary.at("evaluation_loss").get<double>(), 0.97 * uniform);
  EXPECT_GT(summary.at("evaluation_rows").get<int64_t>(), 0);
  EXPECT_GT(summary.at("unigram_entropy").get<double>(), 0);
  EXPECT_GE(summary.at("input_wait_share").get<double>(), 0);
  EXPECT_THAT(result.err, AllOf(HasSubstr("step 60/60"), HasSubstr("evaluation at step 60")));

  std::istringstream log(read_file(folder_.path("run/log.jsonl")));
  std::vector<std::string> events;
  for (std::string line; std::getline(log, line);) {
    const std::string event = nlohmann::json::parse(line).at("event");
    if (event != "report") events.push_back(event);
  }
  std::vector<std::string> expected = {"start"};
  for (int epoch = 0; epoch < 3; ++epoch) expected.insert(expected.end(), {"evaluation", "epoch", "checkpoint"});
  expected.insert(expected.end(), {"evaluation", "checkpoint", "end"});
  EXPECT_EQ(events, expected);

  const std::string text = "abc[MASK]def";
  const ChildResult brief =
      run_child({test::kFillMask, "--model", folder_.path("run/model"), "--brief", "--top", "2", text, "a[MASK]"});
  EXPECT_THAT(brief.out, ContainsRegex("^abc\\[MASK\\]def(  [^ ]+ [01]\\.[0-9]+){2}\na\\[MASK\\]     (  [^ ]+ "
                                       "[01]\\.[0-9]+){2}\n$"));
  const ChildResult filled = run_child({test::kFillMask, "--model", folder_.path("run/model"), "--json", text});
  ASSERT_EQ(filled.exit_code, 0) << filled.err;
  const nlohmann::json answer = nlohmann::json::parse(filled.out);
  EXPECT_EQ(answer.at("text"), text);
  ASSERT_EQ(answer.at("masks").size(), 1);
  const nlohmann::json& candidates = answer.at("masks")[0];
  ASSERT_EQ(candidates.size(), 5);
  double sum = 0;
  for (size_t i = 0; i < 5; ++i) {
    const auto score = candidates[i].at("score").get<double>();
    sum += score;
    if (i > 0) {
      EXPECT_LE(score, candidates[i - 1].at("score").get<double>());
    }
    EXPECT_THAT(candidates[i].at("sequence").get<std::string>(), HasSubstr(candidates[i].at("token_str")));
  }
  EXPECT_GT(sum, 5.0 / 32);
  EXPECT_LE(sum, 1.0);
}

TEST_F(TrainMlm, SaysBeforehandWhatTheRunIsAndShowsItsFirstRow) {
  const ChildResult known = run_child(command("run", {"--check", "--epochs", "2", "--warmup-steps", "10%"}));
  EXPECT_EQ(known.exit_code, 0) << known.err;
  EXPECT_THAT(known.out, AllOf(HasSubstr("model                 roberta(num_attention_heads=2, "),
                               ContainsRegex("\nan epoch              [0-9]+ batches in [0-9]+ steps, [0-9]+ rows are "
                                             "dropped\n"),
                               HasSubstr("\na batch               input_ids int32 [8,16], attention_mask int64 [8,16], "
                                         "labels int32 [8,16]\n"),
                               HasSubstr("\npadding               0.0% by attention_mask, of the first 10 batches\n"),
                               HasSubstr("\nrows of a replica     1 in each of 8\n"),
                               ContainsRegex("\nmemory                about .*, activations [1-9][0-9.]* MiB, ")));
  const ChildResult missing = run_child(command("run", {"--check", "--shards", folder_.path("none"), "--json"}));
  EXPECT_EQ(missing.exit_code, 0) << missing.err;
  const nlohmann::json spec = nlohmann::json::parse(missing.out);
  EXPECT_THAT(spec.at("why_not_known").get<std::string>(), HasSubstr("no shards in " + folder_.path("none")));
  EXPECT_EQ(spec.at("steps"), 30);
  EXPECT_TRUE(spec.at("features").is_null());
  EXPECT_FALSE(fs::exists(folder_.path("run")));

  const ChildResult no_tokenizer = run_child(command("run", {"--check", "--tokenizer", folder_.path("none")}));
  EXPECT_EQ(no_tokenizer.exit_code, 0) << no_tokenizer.err;
  EXPECT_THAT(no_tokenizer.out, HasSubstr("there is no tokenizer " + folder_.path("none")));

  // The last phase is as long as --steps says.
  std::vector<std::string> phases = command("run", {"--mask-probability", "1"});
  phases.insert(phases.end(), {"--phase", "steps=2,warmup-steps=0,optimizer=radam,freeze=^roberta\\.embeddings",
                               "--phase", "decay=cosine"});
  const ChildResult trained = run_child(phases);
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.err,
              AllOf(HasSubstr("the first row of the training:\n  input_ids int32 [16]: "),
                    ContainsRegex("\n  text: [^\n]*\\[MASK\\]"), HasSubstr("\nphase 2 of 2 from step 3: ")));
}

TEST_F(TrainMlm, SaysTheShareOfPadding) {
  fs::create_directories(folder_.path("shards/train"));
  {
    RecordWriter writer(folder_.path("shards/train/dataset-0-32.tfrecord"));
    const std::vector<int64_t> ids(16, 5);
    std::vector<int64_t> mask(16, 1);
    std::fill(mask.end() - 6, mask.end(), 0);
    ExampleWriter example;
    for (int row = 0; row < 32; ++row) {
      example.add("input_ids", std::span<const int64_t>(ids));
      example.add("attention_mask", std::span<const int64_t>(mask));
      writer.write(example.finish());
    }
    writer.close();
  }
  const ChildResult result = run_child(command("run", {"--check", "--shards", folder_.path("shards")}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\npadding               37.5% by attention_mask, of the first 10 batches\n"));
}

// Of the start weights themselves: a rate of 1e-12 does not move them.
TEST_F(TrainMlm, StartsWithWeightsAsWideAsTheModelOrTheOptionSays) {
  const auto deviation = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> options = {"--steps", "1", "--warmup-steps", "0", "--learning-rate", "1e-12"};
    options.insert(options.end(), more.begin(), more.end());
    const ChildResult result = run_child(command(out, options));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const SafetensorsFile file(folder_.path(out + "/model/model.safetensors"));
    const std::vector<float> weights = file.values<float>("roberta.encoder.layer.0.intermediate.dense.weight");
    double sum = 0;
    for (const float weight : weights) sum += weight * weight;
    return std::sqrt(sum / static_cast<double>(weights.size()));
  };
  EXPECT_NEAR(deviation("by_width", {}), 0.25, 0.02);
  EXPECT_NEAR(deviation("given", {"--initializer-range", "0.02"}), 0.02, 0.002);
}

TEST_F(TrainMlm, MeasuresOnRandomRowsWithoutReadingOrWritingAFile) {
  const std::vector<std::string> arguments = {"/bin/sh",
                                              "-c",
                                              "cd \"$0\" && exec \"$@\"",
                                              folder_.path(),
                                              test::kTrainMlm,
                                              "--synthetic",
                                              "--layers",
                                              "1",
                                              "--hidden",
                                              "16",
                                              "--vocab-size",
                                              "64",
                                              "--max-length",
                                              "8",
                                              "--global-batch",
                                              "16",
                                              "--steps",
                                              "5",
                                              "--initializer-range",
                                              "0.02",
                                              "--json"};
  const ChildResult result = run_child(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json summary = nlohmann::json::parse(result.out);
  EXPECT_EQ(summary.at("steps"), 5);
  EXPECT_NEAR(summary.at("first_loss").get<double>(), std::log(64.0), 0.1);
  EXPECT_GT(summary.at("tokens_per_s").get<double>(), 0);
  EXPECT_TRUE(summary.at("model").is_null());
  EXPECT_TRUE(fs::is_empty(folder_.path()));
  std::vector<std::string> large = arguments;
  large.insert(large.end() - 1, {"--global-batch", "16400", "--accumulate", "2", "--steps", "2", "--max-length", "2"});
  for (const char* option : {"--global-batch", "--steps", "--max-length"}) {
    const auto first = std::ranges::find(large, option);
    large.erase(first, first + 2);
  }
  const ChildResult of_large_batches = run_child(large);
  ASSERT_EQ(of_large_batches.exit_code, 0) << of_large_batches.err;
  const nlohmann::json two_steps = nlohmann::json::parse(of_large_batches.out);
  EXPECT_EQ(two_steps.at("steps"), 2);
  EXPECT_NEAR(two_steps.at("tokens_per_s").get<double>() * two_steps.at("seconds").get<double>(), 2 * 2 * 16400 * 2, 1);
  for (const auto& [option, value] :
       std::vector<std::pair<std::string, std::string>>{{"--resume", "checkpoint"},
                                                        {"--out", folder_.path("nowhere")},
                                                        {"--checkpoint-every", "2"},
                                                        {"--keep-checkpoints", "2"},
                                                        {"--damage", "skip"}}) {
    std::vector<std::string> with_files = arguments;
    with_files.insert(with_files.end(), {option, value});
    const ChildResult refused = run_child(with_files);
    EXPECT_EQ(refused.exit_code, 1) << option;
    EXPECT_THAT(refused.err, HasSubstr(option + " cannot be given with it"));
  }
}

TEST_F(TrainMlm, GivesTheSameModelForAnyNumberOfThreads) {
  ASSERT_EQ(run_child(command("1", {"--threads", "1"})).exit_code, 0);
  const std::string expected = model_file("1");
  ASSERT_FALSE(expected.empty());
  for (const char* threads : {"2", "4", "8"}) {
    ASSERT_EQ(run_child(command(threads, {"--threads", threads})).exit_code, 0);
    EXPECT_TRUE(model_file(threads) == expected) << threads;
  }
  ASSERT_EQ(run_child(command("seed", {"--seed", "43"})).exit_code, 0);
  EXPECT_FALSE(model_file("seed") == expected);
}

TEST_F(TrainMlm, CtrlCLeavesACheckpointFromWhichTheTrainingGoesOnAsIfNothingHappened) {
  // Nobody reads the child's reports before `wait`: it stands still when they fill the pipe, long before its last step.
  const std::vector<std::string> steps = {"--steps", "2000", "--keep-checkpoints", "100"};
  ASSERT_EQ(run_child(command("straight", steps)).exit_code, 0);

  ChildProcess child(command("stopped", steps));
  const std::string log = folder_.path("stopped/log.jsonl");
  while (read_file(log).find("\"step\":20,") == std::string::npos && child.running()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  child.signal(SIGINT);
  const ChildResult stopped = child.wait();
  ASSERT_EQ(stopped.exit_code, 130) << stopped.err;
  ASSERT_FALSE(fs::exists(folder_.path("stopped/model")));
  const std::string stopped_at = "stopped at ";
  const size_t said = stopped.err.find(stopped_at);
  const size_t end = stopped.err.find("; go on with the same options and --resume last\n", said);
  ASSERT_NE(end, std::string::npos) << stopped.err;
  const std::string checkpoint = stopped.err.substr(said + stopped_at.size(), end - said - stopped_at.size());
  ASSERT_TRUE(fs::is_directory(checkpoint)) << checkpoint;

  std::vector<std::string> resume = {"--resume", checkpoint};
  resume.insert(resume.end(), steps.begin(), steps.end());
  const ChildResult resumed = run_child(command("stopped", resume));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_TRUE(model_file("stopped") == model_file("straight"));

  const auto refused_with = [&](const std::string& option, const std::string& value) {
    std::vector<std::string> changed = resume;
    changed.insert(changed.end(), {option, value});
    return refusal(changed);
  };
  EXPECT_THAT(refused_with("--learning-rate", "0.5"), HasSubstr(" was made with the schedule"));
  EXPECT_THAT(refused_with("--global-batch", "16"), HasSubstr(" was made with the batches"));
  EXPECT_THAT(refused_with("--dropout", "0.2"), AllOf(HasSubstr("dropout_prob=0.1"), HasSubstr("dropout_prob=0.2")));
  EXPECT_THAT(refused_with("--heads", "1"), AllOf(HasSubstr(" was made with the model roberta(num_attention_heads=2,"),
                                                  HasSubstr("this run has roberta(num_attention_heads=1,")));
  EXPECT_THAT(refused_with("--seed", "5"), HasSubstr(" was made with seed 42"));
  EXPECT_THAT(refused_with("--accumulate", "4"), HasSubstr("made with accumulate 1, this run has 4"));
}

// Losses that were logged, by step; those of one step must be equal.
std::map<int64_t, std::string> losses_of(const std::string& log) {
  std::map<int64_t, std::string> losses;
  for (size_t begin = 0, end = 0; (end = log.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const auto line = nlohmann::json::parse(log.substr(begin, end - begin));
    if (line.at("event") != "report") continue;
    const std::string loss = line.at("loss").dump();
    EXPECT_EQ(losses.emplace(line.at("step").get<int64_t>(), loss).first->second, loss)
        << log.substr(begin, end - begin);
  }
  return losses;
}

TEST_F(TrainMlm, KilledAtAnyMomentItGoesOnFromItsNewestCheckpointAsIfNothingHappened) {
  constexpr int64_t kSteps = 200;
  constexpr int64_t kEvery = 10;
  const std::vector<std::string> steps = {"--steps",
                                          std::to_string(kSteps),
                                          "--accumulate",
                                          "2",
                                          "--checkpoint-every",
                                          std::to_string(kEvery),
                                          "--evaluate-every",
                                          "20",
                                          "--keep-best",
                                          "2"};
  ASSERT_EQ(run_child(command("straight", steps)).exit_code, 0);
  const auto expected = losses_of(read_file(folder_.path("straight/log.jsonl")));
  ASSERT_EQ(expected.size(), static_cast<size_t>(kSteps));

  const auto best = testing_models::training_files(folder_.path("straight/best"));
  ASSERT_EQ(best.size(), 2 * 5) << "two models in five files each";

  const auto checkpoint_of = [&](const std::string& out) {
    return CheckpointFolder(folder_.path(out + "/checkpoints"), {}).paths().back();
  };

  KillHistogram histogram(kEvery, kSteps);
  for (uint64_t run = 0; !histogram.has_enough(); ++run) {
    const std::string out = fmt::format("killed{}", run);
    const std::string log = folder_.path(out + "/log.jsonl");
    const auto start = [&](uint64_t attempt) {
      std::vector<std::string> options = steps;
      const std::vector<std::string> checkpoints = CheckpointFolder(folder_.path(out + "/checkpoints"), {}).paths();
      if (!checkpoints.empty()) options.insert(options.end(), {"--resume", checkpoints.back()});
      if (checkpoints.empty() && attempt > 0) options.emplace_back("--overwrite");
      if (attempt % 2 == 1) options.insert(options.end(), {"--threads", "1"});
      return command(out, options);
    };
    const auto last_step = [](const std::string& lines) {
      const auto losses = losses_of(lines);
      return losses.empty() ? 0 : losses.rbegin()->first;
    };
    const ChildResult last = histogram.kill_until_it_ends({.log = log, .command = start, .steps_in = last_step}, run);
    ASSERT_EQ(last.exit_code, 0) << last.err;
    EXPECT_TRUE(model_file(out) == model_file("straight")) << "run " << run;
    EXPECT_EQ(losses_of(read_file(log)), expected);
    EXPECT_TRUE(testing_models::training_files(folder_.path(out + "/best")) == best) << "run " << run;
    // Weights, slots, counters, the place in the data, the list of the best.
    EXPECT_TRUE(testing_models::training_files(checkpoint_of(out)) ==
                testing_models::training_files(checkpoint_of("straight")))
        << "run " << run;
  }
  fmt::print("{}\n", histogram.to_string());
  EXPECT_GE(histogram.num_that_count(), num_kills());
}

TEST_F(TrainMlm, KeepsTheBestModelsAndSaysWhich) {
  const ChildResult result = run_child(command(
      "run", {"--steps", "40", "--evaluate-every", "10", "--keep-best", "2", "--learning-rate", "0.01", "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::map<double, int64_t> by_loss;
  std::istringstream log(read_file(folder_.path("run/log.jsonl")));
  nlohmann::json last_best;
  for (std::string line; std::getline(log, line);) {
    const nlohmann::json event = nlohmann::json::parse(line);
    if (event.at("event") == "evaluation") by_loss[event.at("loss").get<double>()] = event.at("step").get<int64_t>();
    if (event.at("event") == "best") last_best = event.at("best");
  }
  ASSERT_EQ(by_loss.size(), 4U);
  const nlohmann::json kept = nlohmann::json::parse(result.out).at("best");
  ASSERT_EQ(kept.size(), 2U);
  auto expected = by_loss.begin();
  for (size_t i = 0; i < 2; ++i, ++expected) {
    EXPECT_EQ(kept[i].at("evaluation_loss").get<double>(), expected->first);
    EXPECT_EQ(kept[i].at("step"), expected->second);
    EXPECT_EQ(last_best[i].at("path"), kept[i].at("model"));
    const ChildResult filled =
        run_child({test::kFillMask, "--model", kept[i].at("model").get<std::string>(), "abc[MASK]def"});
    EXPECT_EQ(filled.exit_code, 0) << filled.err;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path("run/best")), fs::directory_iterator()), 2);
  EXPECT_THAT(refusal({"--out", folder_.path("run")}), HasSubstr("of an earlier run"));
  fs::remove_all(folder_.path("run/checkpoints"));
  fs::remove_all(folder_.path("run/model"));
  EXPECT_THAT(refusal({"--out", folder_.path("run")}), HasSubstr("holds best of an earlier run"));
  ASSERT_EQ(run_child(command("run", {"--overwrite", "--steps", "3"})).exit_code, 0);
  EXPECT_FALSE(fs::exists(folder_.path("run/best")));
  const std::vector<std::string> again = {"--overwrite", "--steps", "3", "--keep-best", "1"};
  for (int round = 0; round < 2; ++round) ASSERT_EQ(run_child(command("run", again)).exit_code, 0);
  EXPECT_TRUE(fs::exists(folder_.path("run/best/step-00000003/model.safetensors")));
}

TEST_F(TrainMlm, ACheckpointOfAnotherRunGoesOnInAFolderWithResultsOnlyWhenTheyMayBeReplaced) {
  const auto with = [](std::vector<std::string> options, const std::string& seed = "42") {
    options.insert(options.end(), {"--evaluate-every", "10", "--checkpoint-every", "10", "--keep-best", "2",
                                   "--learning-rate", "0.01", "--seed", seed});
    return options;
  };
  ASSERT_EQ(run_child(command("mine", with({}))).exit_code, 0);
  ASSERT_EQ(run_child(command("refused", with({}, "43"))).exit_code, 0);
  const std::string checkpoint = folder_.path("mine/checkpoints/checkpoint-00000020");
  const std::string out = folder_.path("refused");
  const auto before = files_below(out);
  const std::string expected = fmt::format(
      "{0} holds checkpoints of an earlier run, and {1} is not one of its checkpoints; give --overwrite, a checkpoint "
      "in {0}/checkpoints, or another --out",
      out, checkpoint);
  EXPECT_THAT(refusal(with({"--resume", checkpoint})), HasSubstr(expected));
  EXPECT_THAT(refusal(with({"--resume", checkpoint, "--check"})), HasSubstr(expected));
  // A link among its checkpoints is what it leads to.
  fs::create_directory_symlink(checkpoint, out + "/checkpoints/link");
  EXPECT_THAT(refusal(with({"--resume", out + "/checkpoints/link"})), HasSubstr("is not one of its checkpoints"));
  fs::remove(out + "/checkpoints/link");
  // Put there by hand it is taken, but the best models are still another training's.
  fs::copy(checkpoint, out + "/checkpoints/checkpoint-00000021", fs::copy_options::recursive);
  EXPECT_THAT(refusal(with({"--resume", out + "/checkpoints/checkpoint-00000021"})),
              HasSubstr(fmt::format("{}/best holds 2 of another training; remove or move them", out)));
  fs::remove_all(out + "/checkpoints/checkpoint-00000021");
  EXPECT_TRUE(files_below(out) == before);

  const std::string own = out + "/checkpoints/checkpoint-00000020/";
  EXPECT_THAT(refusal(with({"--overwrite", "--resume", own}, "43")), HasSubstr("--overwrite would remove " + own));
  ASSERT_EQ(run_child(command("refused", with({"--resume", own}, "43"))).exit_code, 0);
  const auto without_log = [](std::map<std::string, std::string> files) {
    std::erase_if(files,
                  [](const auto& file) { return file.first == "log.jsonl" || file.first.starts_with("tensorboard/"); });
    return files;
  };
  EXPECT_TRUE(without_log(files_below(out)) == without_log(before)) << "the same steps once more";

  const ChildResult replaced = run_child(command("refused", with({"--overwrite", "--resume", checkpoint})));
  ASSERT_EQ(replaced.exit_code, 0) << replaced.err;
  EXPECT_TRUE(files_below(out + "/best") == files_below(folder_.path("mine/best")));
  EXPECT_TRUE(model_file("refused") == model_file("mine"));
  EXPECT_THAT(CheckpointFolder(out + "/checkpoints", {}).paths(),
              testing::ElementsAre(out + "/checkpoints/checkpoint-00000030"));
  const auto losses = losses_of(read_file(out + "/log.jsonl"));
  ASSERT_EQ(losses.size(), 10U);
  EXPECT_EQ(losses.begin()->first, 21);
}

TEST_F(TrainMlm, KeepBestMayBeLeftOutForAWhile) {
  const std::vector<std::string> options = {"--evaluate-every", "10", "--checkpoint-every", "10"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), options.begin(), options.end());
    return command("run", more);
  };
  const auto checkpoint = [&](int64_t step) {
    return folder_.path(fmt::format("run/checkpoints/checkpoint-{:08}", step));
  };
  ASSERT_EQ(run_child(with({"--keep-best", "3"})).exit_code, 0);
  const auto best = files_below(folder_.path("run/best"));
  ASSERT_EQ(best.size(), 3U * 6);
  ASSERT_EQ(run_child(with({"--resume", checkpoint(10)})).exit_code, 0);
  EXPECT_TRUE(files_below(folder_.path("run/best")) == best) << "not touched";
  const ChildResult again = run_child(with({"--keep-best", "3", "--resume", checkpoint(30), "--json"}));
  ASSERT_EQ(again.exit_code, 0) << again.err;
  const nlohmann::json kept = nlohmann::json::parse(again.out).at("best");
  std::vector<int64_t> steps;
  for (const nlohmann::json& each : kept) steps.push_back(each.at("step").get<int64_t>());
  EXPECT_THAT(steps, testing::UnorderedElementsAre(10, 30)) << "20 was evaluated while none were kept";
}

TEST_F(TrainMlm, AccumulatedBatchesTrainLikeOneBatchOfAllTheirRows) {
  const auto losses = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> options = {"--dropout", "0", "--steps", "20"};  // within an epoch
    options.insert(options.end(), more.begin(), more.end());
    const ChildResult result = run_child(command(out, options));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return losses_of(read_file(folder_.path(out + "/log.jsonl")));
  };
  const auto one = losses("one", {"--global-batch", "12"});
  const auto three = losses("three", {"--global-batch", "4", "--accumulate", "3"});
  ASSERT_EQ(one.size(), 20U);
  ASSERT_EQ(three.size(), 20U);
  for (const auto& [step, loss] : one) EXPECT_NEAR(std::stod(three.at(step)), std::stod(loss), 1e-4) << step;
}

TEST_F(TrainMlm, AnEarlierRunIsReplacedOnlyWhenThatIsAskedFor) {
  ASSERT_EQ(run_child(command("refused", {"--steps", "5", "--learning-rate", "0.01"})).exit_code, 0);
  const std::string model = model_file("refused");
  EXPECT_THAT(refusal({}), HasSubstr("holds checkpoints of an earlier run"));
  EXPECT_THAT(refusal({"--check"}), HasSubstr("holds checkpoints of an earlier run"));
  EXPECT_TRUE(model_file("refused") == model);
  const std::vector<std::string> earlier = event_files("refused");
  EXPECT_EQ(earlier.size(), 1U);
  // Somebody's own, and another program's.
  write_file(folder_.path("refused/tensorboard/notes.txt"), "mine");
  fs::create_directories(folder_.path("refused/tensorboard/other"));
  write_file(folder_.path("refused/tensorboard/other/events.out.tfevents.1.host"), "");
  ASSERT_EQ(run_child(command("refused", {"--overwrite"})).exit_code, 0);
  EXPECT_EQ(losses_of(read_file(folder_.path("refused/log.jsonl"))).size(), 30U) << "of this run alone";
  EXPECT_FALSE(fs::exists(folder_.path("refused/log.jsonl.new")));
  EXPECT_TRUE(fs::exists(folder_.path("refused/tensorboard/notes.txt")));
  EXPECT_TRUE(fs::exists(folder_.path("refused/tensorboard/other/events.out.tfevents.1.host")));
  const std::vector<std::string> now = event_files("refused");
  ASSERT_EQ(now.size(), 1U);
  EXPECT_NE(now, earlier);
  EXPECT_FALSE(model_file("refused") == model);
  EXPECT_FALSE(fs::exists(folder_.path("refused/checkpoints/checkpoint-00000005")));
}

TEST_F(TrainMlm, EventFilesThatNobodyAskedToReplaceStay) {
  fs::create_directories(folder_.path("run/tensorboard"));
  write_file(folder_.path("run/tensorboard/events.out.tfevents.1.host"), "");
  const ChildResult result = run_child(command("run", {"--steps", "5"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(event_files("run").size(), 2U);
  EXPECT_TRUE(fs::exists(folder_.path("run/tensorboard/events.out.tfevents.1.host")));
}

TEST_F(TrainMlm, AnEarlierRunIsStillThereWhenTheOneThatReplacesItCannotStart) {
  ASSERT_EQ(run_child(command("refused", {"--steps", "5"})).exit_code, 0);
  const std::string model = model_file("refused");
  fs::copy(data_->path("shards"), folder_.path("shards"), fs::copy_options::recursive);
  for (const auto& shard : fs::directory_iterator(folder_.path("shards/train"))) fs::resize_file(shard, 5);
  ASSERT_EQ(run_child(command("other", {"--steps", "5"})).exit_code, 0);
  const std::string checkpoint = folder_.path("other/checkpoints/checkpoint-00000005");
  const std::vector<std::string> events = event_files("refused");
  ASSERT_EQ(events.size(), 1U);
  const std::string log = read_file(folder_.path("refused/log.jsonl"));
  for (const auto& [more, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--shards", folder_.path("shards")}, "truncated"},
           {{"--freeze", "nosuchname"}, "nosuchname"},
           {{"--resume", checkpoint}, " was made with the schedule"}}) {
    std::vector<std::string> options = more;
    options.emplace_back("--overwrite");
    EXPECT_THAT(refusal(options), HasSubstr(message));
    for (const std::string& file : events) EXPECT_TRUE(fs::exists(file)) << file;
    EXPECT_EQ(read_file(folder_.path("refused/log.jsonl")), log) << message;
    EXPECT_FALSE(fs::exists(folder_.path("refused/log.jsonl.new"))) << message;
    EXPECT_TRUE(model_file("refused") == model);
    EXPECT_TRUE(fs::exists(folder_.path("refused/checkpoints/checkpoint-00000005")));
  }
}

TEST_F(TrainMlm, ALogThatStandsAloneIsReplacedByTheNextRun) {
  fs::create_directories(folder_.path("run"));
  write_file(folder_.path("run/log.jsonl"), "earlier\n");
  write_file(folder_.path("run/log.jsonl.new"), "killed\n");
  ASSERT_EQ(run_child(command("run", {"--steps", "5"})).exit_code, 0);
  const std::string log = read_file(folder_.path("run/log.jsonl"));
  EXPECT_THAT(log, StartsWith(R"({"event":"start","step":0,)"));
  EXPECT_THAT(log, HasSubstr(R"({"event":"end",)"));
  EXPECT_EQ(log.find("killed"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_.path("run/log.jsonl.new")));
}

TEST_F(TrainMlm, TwoTrainingsInOneFolderAreRefused) {
  ChildProcess first(command("refused", {"--steps", "2000"}));
  while (!fs::exists(folder_.path("refused/log.jsonl")) && first.running()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_THAT(refusal({"--overwrite"}), HasSubstr("another process is training in"));
  EXPECT_TRUE(fs::exists(folder_.path("refused/log.jsonl")));
}

TEST_F(TrainMlm, BadInputIsOneClearLine) {
  EXPECT_THAT(refusal({"--step", "3"}), AllOf(StartsWith("train_mlm: "), HasSubstr("--step"), HasSubstr("--help")));
  EXPECT_THAT(refusal({"--steps", "many"}), HasSubstr("--steps is many; 1 to "));
  EXPECT_THAT(refusal({"--seed", "-1"}), HasSubstr("--seed is -1"));
  EXPECT_THAT(refusal({"--watchdog", "-1"}), HasSubstr("--watchdog is -1; 0 to "));
  EXPECT_THAT(refusal({"--keep-best", "-1"}), HasSubstr("--keep-best is -1; 0 to 1000000 are possible"));
  fs::copy(data_->path("shards"), folder_.path("shards"), fs::copy_options::recursive);
  fs::remove_all(folder_.path("shards/validation"));
  fs::remove(folder_.path("shards/statistics.json"));
  EXPECT_THAT(refusal({"--keep-best", "1", "--shards", folder_.path("shards")}),
              HasSubstr("--keep-best is given, but there is nothing to evaluate on"));
  EXPECT_THAT(refusal({"--accumulate", "0"}), HasSubstr("--accumulate is 0; 1 to 1000000 are possible"));
  EXPECT_THAT(refusal({"--steps", "0"}), HasSubstr("--steps is 0; 1 to 1000000000000 are possible"));
  EXPECT_THAT(refusal({"--warmup-steps", "31"}), HasSubstr("must be at most --steps, which is 30"));
  EXPECT_THAT(refusal({"--hidden", "15"}), HasSubstr("--hidden is 15, must be a multiple of --heads, which is 2"));
  EXPECT_THAT(refusal({"--vocab-size", "31"}), HasSubstr("--vocab-size is 31, but the tokenizer has 32 tokens"));
  EXPECT_THAT(refusal({"--shards", folder_.path("none")}), HasSubstr("no shards in " + folder_.path("none")));
  EXPECT_THAT(refusal({"--tokenizer", folder_.path("none")}), HasSubstr(folder_.path("none")));
  EXPECT_THAT(refusal({"--global-batch", "100000"}), HasSubstr("less than one global batch of 100000"));
  EXPECT_THAT(refusal({"--max-length", "17"}),
              AllOf(HasSubstr("--max-length is 17, but the records of"), HasSubstr("have 16 tokens")));
  EXPECT_THAT(refusal({"--check", "--max-length", "17"}), HasSubstr("--max-length is 17, but the records of"));
  EXPECT_THAT(refusal({"--check", "--global-batch", "100000"}), HasSubstr("less than one global batch of 100000"));
  EXPECT_THAT(refusal({"--check", "--keep-best", "1", "--shards", folder_.path("shards")}),
              HasSubstr("--keep-best is given, but there is nothing to evaluate on"));
  EXPECT_THAT(refusal({"--resume", folder_.path("none")}), HasSubstr(folder_.path("none")));
  for (const auto& [option, most] :
       std::vector<std::pair<std::string, std::string>>{{"--layers", "10000"},
                                                        {"--hidden", "536870911"},
                                                        {"--vocab-size", "2147483647"},
                                                        {"--max-length", "1073741823"},
                                                        {"--global-batch", "2147483647"}}) {
    for (const char* value : {"4611686018427387904", "9223372036854775807"}) {
      EXPECT_THAT(refusal({option, value, "--heads", "1"}), AllOf(HasSubstr(fmt::format("{} is {}; ", option, value)),
                                                                  HasSubstr(fmt::format(" to {} are", most))));
    }
  }
  EXPECT_THAT(refusal({"--vocab-size", "2147483647", "--hidden", "1024"}),
              HasSubstr("word_embeddings.weight' [2147483647,1024] would make a model of more than"));
}

TEST_F(TrainMlm, ShardsOfAnotherShapeOrTokenizerAreRefused) {
  std::string tokenizer = letter_tokenizer_json();
  tokenizer.replace(tokenizer.rfind("[\"z\""), 4, "[\"Z\"");
  write_file(folder_.path("same_size.json"), tokenizer);
  EXPECT_THAT(refusal({"--tokenizer", folder_.path("same_size.json")}),
              AllOf(HasSubstr("were written with another tokenizer than"), HasSubstr("same_size.json")));
  fs::copy(data_->path("shards"), folder_.path("shards"), fs::copy_options::recursive);
  const std::string statistics = read_file(folder_.path("shards/statistics.json"));
  std::string other = statistics;
  other.replace(other.find("tokenizer_digest"), 16, "no_digest");
  write_file(folder_.path("shards/statistics.json"), other);
  EXPECT_EQ(run_child(command("other", {"--shards", folder_.path("shards"), "--tokenizer",
                                        folder_.path("same_size.json"), "--steps", "1", "--warmup-steps", "0"}))
                .exit_code,
            0);  // nobody knows
  other.replace(other.find("\"vocabulary_size\": 32"), 21, "\"vocabulary_size\": 33");
  write_file(folder_.path("shards/statistics.json"), other);
  EXPECT_THAT(refusal({"--shards", folder_.path("shards")}), HasSubstr("with a tokenizer of 33 tokens"));
  write_file(folder_.path("shards/statistics.json"), "{");
  EXPECT_THAT(refusal({"--shards", folder_.path("shards")}), HasSubstr("statistics.json"));
  // Without statistics, as other programs write shards, the records themselves say what is wrong.
  fs::remove(folder_.path("shards/statistics.json"));
  EXPECT_THAT(refusal({"--shards", folder_.path("shards"), "--max-length", "17"}),
              AllOf(HasSubstr("feature 'input_ids'"), HasSubstr("record "), HasSubstr("dataset-0-")));
}

TEST_F(TrainMlm, ADamagedShardIsOneLineWithThePlaceAndNoModelIsSaved) {
  fs::copy(data_->path("shards"), folder_.path("shards"), fs::copy_options::recursive);
  const fs::path shard = fs::directory_iterator(folder_.path("shards/train"))->path();
  std::string bytes = read_file(shard.string());
  char& damaged = bytes[bytes.size() / 2 + 30];  // in the payload of a record
  damaged = static_cast<char>(damaged ^ 1);
  write_file(shard.string(), bytes);
  // The error comes when its row's turn comes: within an epoch.
  const std::vector<std::string> an_epoch = {"--shards", folder_.path("shards"), "--steps", "1000", "--overwrite"};
  EXPECT_THAT(refusal(an_epoch), AllOf(HasSubstr("payload_crc"), HasSubstr(shard.string()), HasSubstr("record ")));
  // Ten batches are more than an epoch.
  EXPECT_THAT(refusal({"--check", "--overwrite", "--global-batch", "256", "--shards", folder_.path("shards")}),
              AllOf(HasSubstr("payload_crc"), HasSubstr(shard.string()), HasSubstr("record ")));
  EXPECT_FALSE(fs::exists(folder_.path("refused/model")));

  fs::resize_file(shard, bytes.size() / 2 + 30);
  EXPECT_THAT(refusal(an_epoch), AllOf(HasSubstr("truncated"), HasSubstr(shard.string())));
  fs::remove(shard);
  EXPECT_THAT(refusal(an_epoch), AllOf(HasSubstr("shards are missing"), HasSubstr("/train has")));
  fs::create_symlink(folder_.path("nothing"), shard);
  EXPECT_THAT(refusal(an_epoch), AllOf(HasSubstr("io: "), HasSubstr(shard.string())));
}

TEST_F(TrainMlm, LeavesDamageOutListsItAndGoesOnFromACheckpointWithTheSameList) {
  fs::copy(data_->path("shards"), folder_.path("shards"), fs::copy_options::recursive);
  const std::string shard = fs::directory_iterator(folder_.path("shards/train"))->path().string();
  std::string bytes = read_file(shard);
  bytes[20] = static_cast<char>(bytes[20] ^ 1);  // in the payload of its first record
  write_file(shard, bytes);
  const std::vector<std::string> options = {
      "--shards", folder_.path("shards"), "--damage", "skip",      "--json", "--steps",
      "200",      "--checkpoint-every",   "80",       "--shuffle", "50",     "--evaluate-every",
      "50",       "--keep-best",          "2"};
  const ChildResult straight = run_child(command("straight", options));
  ASSERT_EQ(straight.exit_code, 0) << straight.err;
  const nlohmann::json skipped = nlohmann::json::parse(straight.out).at("skipped");
  EXPECT_GE(skipped.at("regions"), 2) << "one in each epoch";
  EXPECT_EQ(skipped.at("records"), skipped.at("regions"));
  const std::string list = read_file(folder_.path("straight/skipped.jsonl"));
  EXPECT_EQ(std::ranges::count(list, '\n'), skipped.at("regions").get<int64_t>());
  EXPECT_THAT(list, HasSubstr(shard));

  fs::copy(folder_.path("straight"), folder_.path("again"), fs::copy_options::recursive);
  std::vector<std::string> more = options;
  more.insert(more.end(), {"--resume", folder_.path("again/checkpoints/checkpoint-00000080")});
  const ChildResult again = run_child(command("again", more));
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(nlohmann::json::parse(again.out).at("skipped").at("regions"), skipped.at("regions"));
  EXPECT_EQ(read_file(folder_.path("again/skipped.jsonl")), list);
  EXPECT_TRUE(model_file("again") == model_file("straight"));
  EXPECT_THAT(
      refusal({"--shards", folder_.path("shards"), "--damage", "skip", "--max-skipped-records", "0", "--steps", "200"}),
      HasSubstr("damage_budget: 1 records and "));

  // In a folder of its own, also when the first run is gone and something else was there before.
  fs::rename(folder_.path("again/checkpoints/checkpoint-00000080"), folder_.path("moved"));
  fs::remove_all(folder_.path("again"));
  fs::create_directory(folder_.path("elsewhere"));
  write_file(folder_.path("elsewhere/skipped.jsonl"), "{}\n");
  *(std::ranges::find(more, "--resume") + 1) = folder_.path("moved");
  const ChildResult elsewhere = run_child(command("elsewhere", more));
  ASSERT_EQ(elsewhere.exit_code, 0) << elsewhere.err;
  EXPECT_EQ(nlohmann::json::parse(elsewhere.out).at("skipped").at("regions"), skipped.at("regions"));
  EXPECT_EQ(read_file(folder_.path("elsewhere/skipped.jsonl")), list);
  EXPECT_TRUE(model_file("elsewhere") == model_file("straight"));
  EXPECT_TRUE(testing_models::training_files(folder_.path("elsewhere/best")) ==
              testing_models::training_files(folder_.path("straight/best")));
}

TEST_F(TrainMlm, ListsWhatItLeftOutBeforeTheErrorThatEndsIt) {
  fs::copy(data_->path("shards"), folder_.path("shards"), fs::copy_options::recursive);
  const std::string shard = fs::directory_iterator(folder_.path("shards/train"))->path().string();
  std::string bytes = read_file(shard);
  for (const size_t at : {size_t{20}, bytes.size() / 2 + 30}) bytes[at] = static_cast<char>(bytes[at] ^ 1);
  write_file(shard, bytes);
  const ChildResult result = run_child(command(
      "run", {"--shards", folder_.path("shards"), "--damage", "skip", "--max-skipped-records", "1", "--steps", "200"}));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, ContainsRegex("\nskipped 1 region, 1 record, [^\n]*\n  " + shard +
                                        ", bytes [^\n]*\nall of it is listed in " + folder_.path("run/skipped.jsonl") +
                                        "\ntrain_mlm: damage_budget: 2 records and [^\n]*\n$"));
}

TEST_F(TrainMlm, SaysWhatItWaitsForAndExitsWith75WhenReadsDoNotReturn) {
  std::string out;
  const auto stalled = [&](int read, int checkpoint_every) {
    const auto with_watchdog = [&](double seconds, int run) {
      out = fmt::format("hangs-{}-{}", read, run);
      std::vector<std::string> arguments =
          command(out, {"--steps", "100000", "--shuffle", "50", "--checkpoint-every", std::to_string(checkpoint_every),
                        "--watchdog", std::to_string(seconds)});
      arguments[0] = test::kTrainMlmWithHangingReads;
      return arguments;
    };
    return run_stalled_child(with_watchdog, {.environment = {fmt::format("MILLRACE_HANG_READS={}", read)}},
                             "the storage: reading bytes ");
  };
  // After some epochs, so also after the first checkpoint, which reads the ends of the shards.
  const ChildResult result = stalled(60, 50);
  EXPECT_EQ(result.exit_code, 75) << result.err;
  EXPECT_THAT(result.err,
              ContainsRegex("\nmillrace: nothing has moved for [0-9.]+ s; the caller of next\\(\\) has waited "));
  EXPECT_THAT(result.err,
              ContainsRegex("\nnext\\(\\) waits for .*the storage: reading bytes .*has not been answered for "));
  EXPECT_FALSE(std::filesystem::exists(folder_.path(out + "/model")));
  EXPECT_FALSE(std::filesystem::is_empty(folder_.path(out + "/checkpoints"))) << "those of the steps before stay";

  // In the first checkpoint, or before it where the batches come that slowly.
  const ChildResult early = stalled(8, 5);
  EXPECT_EQ(early.exit_code, 75) << early.err;
  EXPECT_THAT(early.err, ContainsRegex("\n(next|PipelineState::serialize)\\(\\) waits for .*the storage: reading bytes "
                                       ".*has not been answered for "));
}

TEST_F(TrainMlm, AFullDiskIsOneLineAndLeavesNoCheckpointUnderAFinalName) {
  EXPECT_THAT(refusal({"--checkpoint-every", "1"}, {.most_file_bytes = 20000}),
              AllOf(HasSubstr("io: "), HasSubstr(".safetensors")));
  for (const auto& entry : fs::directory_iterator(folder_.path("refused/checkpoints"))) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("checkpoint-")) << entry.path();
  }
}

// A RoBERTa of transformers with special tokens of other names; its fill-mask pipeline proposes 342 with 0.5065.
TEST(FillMask, TakesATokenizersOwnSpecialTokens) {
  const std::string model = test::data_path("fill_mask/own_tokens");
  const ChildResult result = run_child({test::kFillMask, "--model", model, "--json", "I <mask> you"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto first = nlohmann::json::parse(result.out).at("masks").at(0).at(0);
  EXPECT_EQ(first.at("token"), 342);
  EXPECT_EQ(first.at("token_str"), " g");
  EXPECT_NEAR(first.at("score").get<double>(), 0.5065, 5e-5);
  EXPECT_THAT(run_child({test::kFillMask, "--model", model, "I [MASK] you"}).err,
              HasSubstr("no <mask> in 'I [MASK] you'"));

  const test::TemporaryFolder folder;
  fs::copy(model, folder.path("other"));
  std::ifstream stream(model + "/config.json");
  auto config = nlohmann::json::parse(stream);
  config["pad_token_id"] = 3;
  std::ofstream(folder.path("other/config.json")) << config;
  EXPECT_THAT(run_child({test::kFillMask, "--model", folder.path("other"), "I <mask> you"}).err,
              HasSubstr("the tokenizer's pad_token '<pad>' is 1, the model's pad_token_id 3"));
}

TEST_F(TrainMlm, FillMaskSaysWhatIsWrong) {
  ASSERT_EQ(run_child(command("run", {"--steps", "2", "--warmup-steps", "0"})).exit_code, 0);
  const auto refused = [&](const std::vector<std::string>& more, const char* model = "run/model") {
    std::vector<std::string> arguments = {test::kFillMask, "--model", folder_.path(model)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ChildResult result = run_child(arguments);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    return result.err;
  };
  EXPECT_THAT(refused({}), HasSubstr("no text given, such as"));
  EXPECT_THAT(refused({"abc"}), HasSubstr("no [MASK] in 'abc'; write [MASK] in the place of a word"));
  EXPECT_THAT(refused({"[MASK] abcdefghijklmnop"}), HasSubstr("the model takes 16"));
  EXPECT_THAT(refused({"[MASK]", "--top", "0"}), HasSubstr("--top is 0"));
  EXPECT_THAT(refused({"[MASK]"}, "run"), HasSubstr("no model in '" + folder_.path("run") +
                                                    "' (no config.json); train_mlm writes one to OUT/model"));
  EXPECT_THAT(refused({"[MASK]", "--text-file", folder_.path("none")}), HasSubstr(folder_.path("none")));
  EXPECT_THAT(refused({"[MASK]", "--logits", folder_.path("none/logits")}), HasSubstr(folder_.path("none/logits")));
  const std::string config_file = folder_.path("run/model/config.json");
  const std::string config = read_file(config_file);
  for (const auto& [field, value, message] : std::vector<std::tuple<std::string, int64_t, std::string>>{
           {"vocab_size", int64_t{1} << 40U, "vocab_size is 1099511627776; at most 2147483647"},
           {"vocab_size", int64_t{1} << 59U, "vocab_size is 576460752303423488; at most"},
           {"vocab_size", int64_t{1} << 62U, "vocab_size is 4611686018427387904; at most"},
           {"vocab_size", (int64_t{1} << 31U) - 1, "another shape: roberta.embeddings.word_embeddings.weight"},
           {"hidden_size", int64_t{1} << 31U, "hidden_size is 2147483648; at most"},
           {"hidden_size", int64_t{1} << 30U, "would make a model of more than"},
           {"intermediate_size", int64_t{1} << 59U, "intermediate_size is 576460752303423488; at most"},
           {"num_hidden_layers", int64_t{1} << 31U, "num_hidden_layers is 2147483648; at most 10000"},
           {"num_hidden_layers", 10000, "missing: roberta.encoder.layer.1."},
           {"type_vocab_size", int64_t{1} << 59U, "type_vocab_size is 576460752303423488; at most"}}) {
    nlohmann::json json = nlohmann::json::parse(config);
    json[field] = value;
    write_file(config_file, json.dump());
    EXPECT_THAT(refused({"[MASK]"}), HasSubstr(message));
  }
  write_file(config_file, config);
  fs::resize_file(folder_.path("run/model/model.safetensors"), 100);
  EXPECT_THAT(refused({"[MASK]"}), HasSubstr("model.safetensors"));
  fs::remove(folder_.path("run/model/config.json"));
  EXPECT_THAT(refused({"[MASK]"}), HasSubstr("(no config.json); train_mlm writes one"));
}

}  // namespace
}  // namespace millrace::test::train_mlm_test
