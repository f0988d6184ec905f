// The layer of a training run, by a program of a toy model that is made of it.
#include "millrace/trainer/run/training_run.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/trainer/checkpoint/training_checkpoint.h"
#include "tests/support/child_process.h"
#include "tests/support/places.h"
#include "tests/trainer/toy_models.h"
#include "tests/trainer/training_files.h"

namespace millrace::training_run_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::ChildResult;
using test::run_child;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_models::training_files;

class ToyRun : public testing::Test {
 protected:
  std::vector<std::string> command(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {test::kToyRun, "--out", folder_.path(out)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  ChildResult run(const std::string& out, const std::vector<std::string>& more) const {
    return run_child(command(out, more));
  }
  json summary(const std::string& out, std::vector<std::string> more) const {
    more.emplace_back("--json");
    const ChildResult result = run(out, more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out);
  }
  std::string refusal(const std::vector<std::string>& more) const {
    const ChildResult result = run("refused", more);
    EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
    const size_t line = result.err.rfind("toy_run: ");
    return line == std::string::npos ? result.err : result.err.substr(line);
  }
  std::vector<json> log(const std::string& out, const std::string& event) const {
    std::vector<json> events;
    std::istringstream lines(test::read_file(folder_.path(out + "/log.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      json parsed = json::parse(line);
      if (parsed.at("event") == event) events.push_back(std::move(parsed));
    }
    return events;
  }
  std::vector<int64_t> steps_of(const std::string& out, const std::string& event) const {
    std::vector<int64_t> steps;
    for (const json& line : log(out, event)) steps.push_back(line.at("step"));
    return steps;
  }
  std::vector<std::string> checkpoints(const std::string& out) const {
    return checkpoints_in(folder_.path(out + "/checkpoints"));
  }

  const test::TemporaryFolder folder_;
};

std::vector<std::string> with(std::vector<std::string> options, const std::vector<std::string>& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

const std::vector<std::string> kPhases = {
    "--phase",          "steps=10,optimizer=radam,learning-rate=0.01,freeze=^first",
    "--phase",          "epochs=2,start-rate=1e-4,warmup-steps=10%,decay=cosine",
    "--phase",          "steps=5,optimizer=lamb,end-rate=1e-3",
    "--evaluate-every", "3",
    "--keep-best",      "2",
    "--report-every",   "1"};

// Losses and rates by step; those of one step must be equal.
std::map<int64_t, std::string> curve_of(const std::vector<json>& reports) {
  std::map<int64_t, std::string> curve;
  for (const json& line : reports) {
    const std::string values = line.at("loss").dump() + " " + line.at("learning_rate").dump();
    EXPECT_EQ(curve.emplace(line.at("step").get<int64_t>(), values).first->second, values);
  }
  return curve;
}

// With an epoch of 5 batches of 8 rows: steps 1 to 10, 11 to 20, 21 to 25, and a checkpoint at each fifth, so that one
// is where a phase begins.
TEST_F(ToyRun, OfPhasesKilledAroundTheirBeginningsItEndsWithTheFilesOfOneThatWasNot) {
  ASSERT_EQ(run("straight", kPhases).exit_code, 0);
  const auto expected = training_files(checkpoints("straight").back());
  const auto best = training_files(folder_.path("straight/best"));
  const auto curve = curve_of(log("straight", "report"));
  ASSERT_EQ(curve.size(), 25U);
  EXPECT_THAT(steps_of("straight", "phase"), ElementsAre(10, 20));
  EXPECT_EQ(log("straight", "phase").back().at("phase"), 3);
  ASSERT_EQ(best.size(), 2 * 3U);

  // Around the beginnings of phases, and checkpoints.
  for (const int64_t batch : {0, 5, 9, 10, 11, 14, 19, 20, 21, 24}) {
    const std::string out = fmt::format("killed{}", batch);
    std::vector<std::string> options = kPhases;
    options.insert(options.end(), {"--kill-at-batch", std::to_string(batch)});
    ASSERT_EQ(run(out, options).signal, SIGKILL);
    options = kPhases;
    const std::vector<std::string> left = checkpoints(out);
    EXPECT_EQ(left.empty(), batch < 5);
    options.insert(options.end(), {"--resume", batch % 2 == 0 && !left.empty() ? left.back() : "last"});
    const ChildResult result = run(out, options);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(training_files(checkpoints(out).back()) == expected) << "killed before batch " << batch;
    EXPECT_TRUE(training_files(folder_.path(out + "/best")) == best) << "killed before batch " << batch;
    EXPECT_TRUE(test::read_file(folder_.path(out + "/model/model.safetensors")) ==
                test::read_file(folder_.path("straight/model/model.safetensors")));
    EXPECT_EQ(curve_of(log(out, "report")), curve);
  }
}

TEST_F(ToyRun, DoesNotGoOnWithAnotherDescriptionOfTheModel) {
  const auto with_tokenizer = [](const char* text) {
    return std::vector<std::string>{"--steps", "10", "--tokenizer", text};
  };
  ASSERT_EQ(run("described", with_tokenizer(R"({"words":["a","b"]})")).exit_code, 0);
  const auto before = test::files_below(folder_.path("described"));
  for (const char* const other : {R"({"words":["b","a"]})", R"({"words":7,"more":1})"}) {
    for (const std::vector<std::string>& how : std::vector<std::vector<std::string>>{{}, {"--check"}}) {
      const ChildResult result = run("described", with(with(with_tokenizer(other), {"--resume", "last"}), how));
      EXPECT_EQ(result.exit_code, 1);
      EXPECT_EQ(result.out, "");
      EXPECT_EQ(result.err, "toy_run: invalid_argument: checkpoint " + checkpoints("described").back() +
                                " was written with another tokenizer.json than this run has: go on with the data and "
                                "options that it was trained with\n");
      EXPECT_EQ(test::files_below(folder_.path("described")), before);
    }
  }
  // The same otherwise written, with a member more, or one that the checkpoint lacks.
  for (const char* const same : {"{ \"words\" : [\"a\", \"b\"] }", R"({"words":["a","b"],"since":2})", R"({})"}) {
    EXPECT_EQ(run("described", with(with_tokenizer(same), {"--resume", "last"})).exit_code, 0);
  }
}

TEST_F(ToyRun, CanBeStartedAgainByTheSameCommandHoweverItEnded) {
  const std::vector<std::string> patience = {"--steps",    "20", "--learning-rate", "1e-12", "--evaluate-every", "1",
                                             "--patience", "2",  "--resume",        "last"};
  ASSERT_EQ(run("ended", patience).exit_code, 0);
  const auto ended = training_files(checkpoints("ended").back());
  const json again = summary("ended", patience);
  EXPECT_EQ(again.at("steps"), 4) << "its patience was at an end";
  EXPECT_TRUE(training_files(checkpoints("ended").back()) == ended);

  const std::vector<std::string> longer = {"--steps", "7", "--checkpoint-every", "5", "--resume", "last"};
  ASSERT_EQ(run("longer", longer).exit_code, 0);
  const auto whole = training_files(folder_.path("longer/model"));
  EXPECT_EQ(summary("longer", longer).at("steps"), 7);
  EXPECT_TRUE(training_files(folder_.path("longer/model")) == whole);

  fs::remove_all(folder_.path("longer/checkpoints"));
  const ChildResult lost = run("longer", longer);
  EXPECT_EQ(lost.exit_code, 1);
  EXPECT_THAT(lost.err, HasSubstr("holds model of an earlier run"));
  EXPECT_TRUE(training_files(folder_.path("longer/model")) == whole);
}

TEST_F(ToyRun, WithoutAFolderWritesNothingAlsoInPhases) {
  std::vector<std::string> arguments = {test::kToyRun};
  arguments.insert(arguments.end(), kPhases.begin(), kPhases.begin() + 6);
  arguments.insert(arguments.end(), {"--in-memory", "--json"});
  const ChildResult result =
      run_child({"/bin/sh", "-c", "cd \"$0\" && exec \"$@\"", folder_.path(), arguments[0], arguments[1], arguments[2],
                 arguments[3], arguments[4], arguments[5], arguments[6], arguments[7], arguments[8]});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json summary = json::parse(result.out);
  EXPECT_EQ(summary.at("steps"), 25);
  EXPECT_TRUE(summary.at("model").is_null());
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(ToyRun, CountsEpochsOfWhichTheLastStepMayHaveFewerBatches) {
  // 5 batches an epoch, two in a step: 3 steps.
  EXPECT_EQ(summary("run", {"--epochs", "4", "--accumulate", "2", "--evaluate-every", "2epochs", "--checkpoint-every",
                            "3epochs", "--keep-checkpoints", "9"})
                .at("steps"),
            12);
  EXPECT_THAT(steps_of("run", "epoch"), ElementsAre(3, 6, 9));
  EXPECT_THAT(steps_of("run", "evaluation"), ElementsAre(6, 12));
  EXPECT_THAT(checkpoints("run"), ElementsAre(testing::EndsWith("-00000009"), testing::EndsWith("-00000012")));
  EXPECT_EQ(summary("fewer", {"--epochs", "4", "--steps", "11"}).at("steps"), 11);
}

TEST_F(ToyRun, KeepsTheBestByAMetricAndStopsByTheSame) {
  const std::vector<std::string> options = {"--steps", "12", "--evaluate-every", "2", "--learning-rate", "0.05"};
  const json kept = summary("best", with(options, {"--keep-best", "1", "--keep-best-by", "spearman"})).at("best");
  double highest = -2;
  for (const json& line : log("best", "evaluation")) {
    highest = std::max(highest, line.at("metrics").at("spearman").get<double>());
  }
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0].at("evaluation_spearman"), highest);
  EXPECT_THAT(refusal(with(options, {"--patience", "1", "--keep-best-by", "accuracy"})),
              HasSubstr("an evaluation has no metric 'accuracy'; there are: loss, spearman"));
  EXPECT_THAT(refusal(with(options, {"--keep-best", "1", "--keep-best-by", "accuracy"})), HasSubstr("no metric"));
  EXPECT_FALSE(fs::exists(folder_.path("refused")));
  EXPECT_THAT(refusal({"--keep-best-by", "spearman"}), HasSubstr("--keep-best-by says nothing without"));
  for (const auto& [option, value] : std::vector<std::pair<std::string, std::string>>{
           {"--keep-best", "1"}, {"--patience", "0"}, {"--evaluate-every", "2epochs"}}) {
    const std::string message = option + " is given, but there is nothing to evaluate on";
    EXPECT_THAT(refusal({"--no-evaluation", option, value}), HasSubstr(message));
    EXPECT_THAT(refusal({"--no-evaluation", "--check", option, value}), HasSubstr(message));
  }
}

// At a rate of next to nothing no evaluation is better by more than rounding.
TEST_F(ToyRun, StopsEarlyInItsLastPhaseOnly) {
  const json stopped = summary(
      "run", {"--phase", "steps=10,learning-rate=1e-12", "--phase", "steps=10,learning-rate=1e-12", "--warmup-steps",
              "0", "--evaluate-every", "1", "--patience", "2", "--keep-best", "1", "--keep-best-by", "spearman"});
  EXPECT_EQ(stopped.at("steps"), 14) << "one evaluation to compare with, and three that are not better";
}

TEST_F(ToyRun, ShowsTheFirstRowOnceAndLeavesTheBatchWhereItIs) {
  const ChildResult result = run("shown", {"--steps", "6", "--checkpoint-every", "3"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("the first row of the training:\n  x float32 [5]: "),
                                HasSubstr("\n  ids int32 [1]: 7\n  a row of 1\\x1b ids\n")));
  const ChildResult silent = run("silent", {"--steps", "6", "--checkpoint-every", "3", "--json"});
  ASSERT_EQ(silent.exit_code, 0) << silent.err;
  EXPECT_THAT(silent.err, testing::Not(HasSubstr("the first row")));
  EXPECT_TRUE(training_files(checkpoints("shown").back()) == training_files(checkpoints("silent").back()));
  const ChildResult resumed =
      run("shown", {"--steps", "6", "--checkpoint-every", "3", "--resume", checkpoints("shown")[0]});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, testing::Not(HasSubstr("the first row")));
}

TEST_F(ToyRun, EndsWhenMoreShapesComeThanAreAllowed) {
  EXPECT_EQ(summary("alike", {"--steps", "6"}).at("distinct_shapes"), 1);
  EXPECT_EQ(summary("short", {"--steps", "6", "--rows", "12", "--keep-remainder"}).at("distinct_shapes"), 1);
  EXPECT_EQ(summary("three", {"--steps", "9", "--widths", "3", "--max-shapes", "3"}).at("distinct_shapes"), 3);
  const std::string message =
      "batch 2 has the shapes x [8,5], y [8], ids [8,3]; that makes 3 different shapes of batches, at most 2 allowed";
  EXPECT_THAT(refusal({"--steps", "9", "--widths", "3", "--max-shapes", "2"}), HasSubstr(message));
  EXPECT_THAT(refusal({"--steps", "9", "--widths", "3", "--max-shapes", "2", "--check"}), HasSubstr(message));
  EXPECT_THAT(refusal({"--steps", "9", "--widths", "2", "--overwrite"}), HasSubstr("at most 1 allowed"));
  // What came before a checkpoint counts.
  const std::vector<std::string> cut = {"--steps", "9", "--widths", "3", "--checkpoint-every", "2"};
  std::vector<std::string> killed = cut;
  killed.insert(killed.end(), {"--max-shapes", "3", "--kill-at-batch", "2"});
  ASSERT_EQ(run("cut", killed).signal, SIGKILL);
  std::vector<std::string> resumed = cut;
  resumed.insert(resumed.end(), {"--max-shapes", "2", "--resume", checkpoints("cut").back()});
  EXPECT_THAT(run("cut", resumed).err, HasSubstr(message));
}

TEST_F(ToyRun, GoesOnInFrontOfAShortBatch) {
  const std::vector<std::string> options = {"--steps", "6", "--rows", "12", "--keep-remainder", "--checkpoint-every",
                                            "1"};
  ASSERT_EQ(run("run", with(options, {"--kill-at-batch", "1"})).signal, SIGKILL);
  EXPECT_EQ(summary("run", with(options, {"--resume", checkpoints("run").back()})).at("distinct_shapes"), 1);
}

TEST_F(ToyRun, WithoutABatchIsAnErrorAndLeavesAnEarlierRunAsItIs) {
  ASSERT_EQ(run("refused", {"--steps", "5", "--keep-best", "1"}).exit_code, 0);
  const auto before = test::files_below(folder_.path("refused"));
  EXPECT_THAT(refusal({"--steps", "6", "--rows", "0", "--keep-remainder", "--keep-best", "1", "--overwrite"}),
              HasSubstr("the training data gave no batch"));
  const auto after = test::files_below(folder_.path("refused"));
  for (const auto& [name, bytes] : before) {
    EXPECT_TRUE(after.contains(name) && after.at(name) == bytes) << name;
  }
  for (const auto& [name, bytes] : after) EXPECT_TRUE(before.contains(name)) << name;
}

TEST_F(ToyRun, SaysBeforehandWhatTheRunIs) {
  std::vector<std::string> options = kPhases;
  options.insert(options.end(), {"--check", "--rows", "43", "--replicas", "3", "--keep-remainder", "--widths", "2",
                                 "--max-shapes", "2"});
  const ChildResult table = run("none", options);
  ASSERT_EQ(table.exit_code, 0) << table.err;
  EXPECT_FALSE(fs::exists(folder_.path("none")));
  for (const char* line :
       {"model                 regression\n", "parameters            50\n",
        "phase 1               steps 1 to 10, 8 trained without '^first': radam(",
        "phase 2               steps 11 to 22, 50 trained: adam(", "steps                 27, 4.50 epochs\n",
        "an epoch              6 batches in 6 steps, the last batch has 3 rows\n",
        "a batch               x float32 [8,5], y float32 [8], ids int32 [8,1]\n",
        "distinct shapes       2 in the first 10 batches\n",
        "padding               15.5% by ids, of the first 10 batches\n", "rows of a replica     3 in 2, 2 in 1\n",
        "  of the last batch   1 in each of 3\n", "memory                more than about 0.0 MiB: "}) {
    EXPECT_THAT(table.out, HasSubstr(line));
  }
  const json spec =
      summary("none", {"--check", "--rows", "43", "--replicas", "3", "--epochs", "2", "--warmup-steps", "3"});
  EXPECT_EQ(spec.at("dropped_rows"), 3);
  EXPECT_EQ(spec.at("short_batch"), 0);
  EXPECT_EQ(spec.at("steps"), 10);
  EXPECT_EQ(spec.at("rows_per_replica"), json::array({3, 3, 2}));
  EXPECT_TRUE(spec.at("rows_per_replica_of_short_batch").is_null());
  EXPECT_EQ(spec.at("phases")[0].at("trained"), 50);
  const json& memory = spec.at("memory");
  EXPECT_EQ(memory.at("slots"), 2 * 50 * 4);
  EXPECT_EQ(memory.at("gradient_buffers"), 3);
  EXPECT_EQ(memory.at("gradients"), 3 * 50 * 4);
  EXPECT_EQ(memory.at("weights"), 4 * testing_models::Regression().layout().size());
  EXPECT_TRUE(memory.at("activations").is_null()) << "this model does not say";
  EXPECT_GE(memory.at("pipeline"), 8 * (5 + 1 + 1) * 4) << "a batch";
  EXPECT_LE(memory.at("pipeline"), memory.at("pipeline_budget"));
  EXPECT_THAT(run("none", {"--check", "--no-masks", "--damage", "skip"}).out,
              AllOf(HasSubstr("an epoch              5 batches in 5 steps if no row is left out, 0 rows are dropped\n"),
                    HasSubstr("padding               none: there are no masks\n")));
}

TEST_F(ToyRun, SaysBeforehandWhatACacheWillHold) {
  const auto cache = [&](const std::vector<std::string>& more) {
    return summary("none", with({"--check"}, more)).at("memory").at("cache").get<int64_t>();
  };
  constexpr int64_t kRowBytes = (5 + 1 + 1) * 4;
  EXPECT_EQ(cache({"--rows", "1000000"}), 0);
  EXPECT_GE(cache({"--rows", "1000000", "--cache"}), 500'000 * kRowBytes);
  EXPECT_LE(cache({"--rows", "1000000", "--cache"}), 1'000'000 * 4 * kRowBytes);
  EXPECT_EQ(cache({"--rows", "40", "--cache"}), 0) << "the first 10 batches are two epochs";
  EXPECT_THAT(run("none", {"--check", "--rows", "1000000", "--cache"}).out,
              HasSubstr(" for the rest of its cache, of at most"));
}

// Options that only the data show to be wrong; those that are not there yet are no excuse for the others.
TEST_F(ToyRun, RefusesBeforehandWhatWouldEndTheRunAtItsStart) {
  EXPECT_THAT(refusal({"--check", "--rows", "7"}), HasSubstr("7 rows are less than a batch of 8"));
  EXPECT_THAT(refusal({"--check", "--keep-best", "1", "--keep-best-by", "nosuch"}),
              HasSubstr("an evaluation has no metric 'nosuch'; there are: loss, spearman"));
  EXPECT_THAT(refusal({"--check", "--patience", "1", "--keep-best-by", "nosuch"}), HasSubstr("no metric 'nosuch'"));
  EXPECT_EQ(run("none", {"--check", "--keep-best", "1", "--keep-best-by", "spearman"}).exit_code, 0);
  for (const std::vector<std::string>& options : {std::vector<std::string>{"--check"}, {"--check", "--no-data"}, {}}) {
    EXPECT_THAT(refusal(with(options, {"--epochs", "2", "--end-rate", "1"})),
                HasSubstr("--end-rate is 1, must be at most --learning-rate"));
    EXPECT_THAT(refusal(with(options, {"--epochs", "2", "--freeze", "("})),
                HasSubstr("--freeze '(' is no regular expression"));
  }
  EXPECT_THAT(refusal({"--freeze", "^nosuch"}), HasSubstr("--freeze '^nosuch' matches no parameter"));
  EXPECT_THAT(refusal({"--phase", "steps=2", "--phase", "steps=2,freeze=^nosuch", "--check"}),
              HasSubstr("phase 2: freeze '^nosuch' matches no parameter"));
}

TEST_F(ToyRun, SeesBeforehandWhetherItCanWrite) {
  const std::string file = folder_.path("file");
  test::write_file(file, "");
  ASSERT_EQ(run("new/out", {"--check", "--cache-dir", folder_.path("new/cache"), "--trace", file}).exit_code, 0);
  EXPECT_FALSE(fs::exists(folder_.path("new"))) << "neither is made";
  for (const char* trace : {"new/out/trace.json", "new/trace.json"}) {
    const std::vector<std::string> traced = {"--steps", "1", "--trace", folder_.path(trace)};
    EXPECT_EQ(run("new/out", with({"--check"}, traced)).exit_code, 0) << trace;
    EXPECT_EQ(run("new/out", traced).exit_code, 0) << trace << ": it comes with OUT";
    fs::remove_all(folder_.path("new"));
  }
  const auto refused = [](const std::string& out, const std::vector<std::string>& more) {
    const ChildResult result = run_child(with({test::kToyRun, "--out", out}, more));
    EXPECT_EQ(result.exit_code, 1);
    return result.err;
  };
  for (const std::vector<std::string>& how : std::vector<std::vector<std::string>>{{"--check"}, {}}) {
    for (const std::string& out : {file, file + "/below", std::string("/proc/none")}) {
      EXPECT_THAT(refused(out, how), HasSubstr("cannot make the folder: "));
    }
    for (const char* out : {"s3://bucket", "https://example.invalid/run"}) {
      EXPECT_THAT(refused(out, how), HasSubstr("a run is written to a local folder or to one of a bucket"));
    }
    for (const std::string& trace :
         {folder_.path(), file + "/below", folder_.path("none/trace"), folder_.path("out/none/trace")}) {
      EXPECT_THAT(refused(folder_.path("out"), with(how, {"--trace", trace})), HasSubstr("cannot create the file: "));
    }
    EXPECT_THAT(refused(folder_.path("out"), with(how, {"--trace", "s3://bucket/trace.json"})),
                HasSubstr("only local files are written here"));
  }
  EXPECT_THAT(refused(folder_.path("out"), {"--check", "--cache-dir", file}),
              HasSubstr("cannot make the folder: Not a"));
  EXPECT_THAT(refused(folder_.path("out"), {"--check", "--cache-dir", "s3://bucket/cache"}),
              HasSubstr("only local files are written here"));
}

TEST_F(ToyRun, LooksBeforehandAtTheCheckpointThatItWouldGoOnFrom) {
  ASSERT_EQ(run("run", {"--steps", "7", "--checkpoint-every", "5"}).exit_code, 0);
  const std::vector<std::string> check = {"--check", "--steps", "7", "--checkpoint-every", "5"};
  EXPECT_THAT(run("run", with(check, {"--resume", "last"})).out, HasSubstr("goes on               after step 7\n"));
  EXPECT_EQ(summary("run", with(check, {"--resume", checkpoints("run")[0]})).at("resumed_at"), 5);
  EXPECT_TRUE(summary("none", with(check, {"--resume", "last"})).at("resumed_at").is_null());
  const ChildResult missing = run("run", with(check, {"--resume", folder_.path("run/checkpoints/nosuch")}));
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("nosuch/training.json"));
  const ChildResult other = run("run", with(check, {"--resume", "last", "--seed", "7"}));
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("seed"));
  EXPECT_EQ(run("run", with(check, {"--resume", "last", "--no-data"})).exit_code, 0);
}

TEST_F(ToyRun, ADefaultThatAsksForEvaluationsIsRefusedByNobody) {
  EXPECT_EQ(summary("run", {"--no-evaluation", "--steps", "3"}).at("steps"), 3) << "the program's is 500";
  const std::vector<std::string> none = {"--no-evaluation", "--steps", "3", "--evaluate-every", "0",
                                         "--keep-best",     "0"};
  EXPECT_EQ(summary("asked", none).at("steps"), 3) << "these ask for none";
  EXPECT_THAT(refusal({"--no-evaluation", "--evaluate-every", "1epochs"}), HasSubstr("--evaluate-every is given, but"));
  EXPECT_THAT(refusal({"--no-evaluation", "--evaluate-every", "500"}), HasSubstr("--evaluate-every is given, but"));
}

TEST_F(ToyRun, SaysOfMissingDataThatTheyAreNotKnown) {
  const ChildResult table = run("none", {"--check", "--no-data", "--epochs", "2"});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out,
              AllOf(HasSubstr("model                 not known\n"), HasSubstr("steps                 not known\n"),
                    HasSubstr("a batch               not known\n"),
                    HasSubstr("why not known         io: there are no rows\n")));
  const json spec = summary("none", {"--check", "--no-data", "--steps", "20", "--warmup-steps", "2"});
  EXPECT_EQ(spec.at("steps"), 20);
  EXPECT_TRUE(spec.at("model").is_null());
  EXPECT_TRUE(spec.at("memory").is_null());
  EXPECT_THAT(refusal({"--check", "--no-data", "--freeze", "nosuchname", "--warmup-steps", "300"}),
              HasSubstr("must be at most --steps"));
  EXPECT_THAT(refusal({"--check", "--freeze", "nosuchname"}), HasSubstr("nosuchname"));
}

TEST(TrainingRun, RefusesAModelThatCannotBeWritten) {
  const testing_models::Regression model;
  const RunData data{.training = Dataset::range(0, 8).batch(2).repeat()};
  TrainingRun run("toy", {.out = "", .phase = {.steps = 1}});
  EXPECT_THAT([&] { (void)run.train({.model = model}, data, nullptr); },
              testing::ThrowsMessage<ErrorException>(HasSubstr("save_description and save_weights are needed")));
}

}  // namespace
}  // namespace millrace::training_run_test
