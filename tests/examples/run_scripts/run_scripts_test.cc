#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/child_process.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsSubsetOf;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

// examples/NAME/run.sh, its training program, the options of that program which the script sets by itself or does not
// give on, and those of the script that take no value.
struct Script {
  std::string name;
  const char* program = nullptr;
  std::set<std::string> own;
  std::set<std::string> switches = {"overwrite", "json"};
  // What it is run on, a file or a folder.
  std::string input = "packages";
  bool input_is_folder = false;
};

void PrintTo(const Script& script, std::ostream* out) { *out << script.name; }

std::string path_of(const Script& script) { return test::source_path("examples/" + script.name + "/run.sh"); }

// The names of options in a help text, without `help`.
std::set<std::string> options_in(const std::string& help) {
  static const std::regex kOption("--([a-z][a-z0-9-]*)");
  std::set<std::string> names;
  for (std::sregex_iterator found(help.begin(), help.end(), kOption); found != std::sregex_iterator(); ++found) {
    names.insert((*found)[1]);
  }
  names.erase("help");
  return names;
}

class RunScript : public ::testing::TestWithParam<Script> {};

TEST_P(RunScript, TakesWhatItsHelpNames) {
  const test::ChildResult help = test::run_child({path_of(GetParam()), "--help"});
  ASSERT_EQ(help.exit_code, 0) << help.err;
  std::vector<std::string> command = {path_of(GetParam())};
  for (const std::string& name : options_in(help.out)) {
    command.push_back("--" + name);
    if (!GetParam().switches.contains(name)) command.emplace_back("1");
  }
  command.emplace_back("--no-such-option");  // so that nothing is built
  const test::ChildResult refused = test::run_child(command);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, StartsWith("run.sh: unknown option '--no-such-option'"));
}

TEST_P(RunScript, NamesTheOptionsOfItsTrainer) {
  const std::set<std::string> offered = options_in(test::run_child({path_of(GetParam()), "--help"}).out);
  std::set<std::string> missing;
  const test::ChildResult help = test::run_child({GetParam().program, "--help"});
  static const std::regex kLine("\n  --([a-z][a-z0-9-]*)");
  for (std::sregex_iterator found(help.out.begin(), help.out.end(), kLine); found != std::sregex_iterator(); ++found) {
    if (!offered.contains((*found)[1])) missing.insert((*found)[1]);
  }
  EXPECT_THAT(missing, IsSubsetOf(GetParam().own));
}

TEST_P(RunScript, RefusesAnOptionWithoutItsValueAndAnArgumentThatIsNone) {
  const test::ChildResult without = test::run_child({path_of(GetParam()), "--out"});
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.err, HasSubstr("--out needs a value; see examples/" + GetParam().name + "/run.sh --help"));
  const test::ChildResult other = test::run_child({path_of(GetParam()), "--out", "--overwrite"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("--out needs a value; see examples/" + GetParam().name + "/run.sh --help"));
  const test::ChildResult resumed = test::run_child({path_of(GetParam()), "--resume", "last", "--no-such-option"});
  EXPECT_THAT(resumed.err, HasSubstr("unknown option '--no-such-option'"));  // and not 'last'
  const test::ChildResult argument = test::run_child({path_of(GetParam()), "packages.txt"});
  EXPECT_EQ(argument.exit_code, 2);
  EXPECT_THAT(argument.err, HasSubstr("'packages.txt' is not an option"));
  const test::ChildResult with = test::run_child({path_of(GetParam()), "--json=yes"});
  EXPECT_EQ(with.exit_code, 2);
  EXPECT_THAT(with.err, HasSubstr("--json takes no value"));
}

// A repository of scripts alone: setup.sh and the programs of the examples only list how they are called in `calls`.
class ScriptsAlone {
 public:
  ScriptsAlone() {
    for (const char* const script : {"run_example.bash", "mlm/run.sh", "quest/run.sh", "text_to_text/run.sh",
                                     "super_resolution/run.sh", "frozen_features/run.sh"}) {
      copy(std::string("examples/") + script);
    }
    write_script("setup.sh", "echo setup.sh: installing something");
    write_script("bin/cmake", "true");
    for (const char* const program :
         {"mlm/train_unigram", "mlm/prepare_tfrecord_shards", "mlm/train_mlm", "mlm/fill_mask", "quest/prepare_quest",
          "quest/train_quest", "quest/predict_quest", "text_to_text/prepare_text_to_text",
          "text_to_text/train_text_to_text", "text_to_text/predict_text_to_text",
          "super_resolution/prepare_super_resolution", "super_resolution/train_super_resolution",
          "super_resolution/interpolate_super_resolution", "super_resolution/distill_super_resolution",
          "super_resolution/measure_super_resolution", "super_resolution/upscale_super_resolution",
          "frozen_features/prepare_frozen_features", "frozen_features/train_frozen_features"}) {
      for (const char* const example : {"mlm", "quest", "text_to_text", "super_resolution", "frozen_features"}) {
        write_script(std::string("build/") + example + "/examples/" + program, "echo '{\"a\":1}'");
      }
    }
    test::write_file(path("texts"), "a text\n");
  }

  std::string path(const std::string& below) const { return folder_.path(below); }
  test::ChildResult run(const Script& script, std::vector<std::string> options) const {
    options.insert(options.begin(), path("examples/" + script.name + "/run.sh"));
    options.insert(options.end(), {"--out", path("out")});
    return test::run_child(options, {.environment = {"PATH=" + path("bin") + ":" + std::getenv("PATH")}});
  }
  void write(const std::string& file) const {
    std::filesystem::create_directories(std::filesystem::path(path(file)).parent_path());
    test::write_file(path(file), "");
  }
  // What was called, a line each.
  std::string calls() const { return test::read_file(path("calls")); }

 private:
  void copy(const std::string& file) const {
    std::filesystem::create_directories(std::filesystem::path(path(file)).parent_path());
    std::filesystem::copy_file(test::source_path(file), path(file));
  }
  void write_script(const std::string& file, const std::string& command) const {
    std::filesystem::create_directories(std::filesystem::path(path(file)).parent_path());
    test::write_file(path(file), "#!/bin/bash\necho \"${0##*/} $*\" >>" + path("calls") + "\n" + command + "\n");
    std::filesystem::permissions(path(file), std::filesystem::perms::owner_all);
  }

  test::TemporaryFolder folder_;
};

TEST_P(RunScript, RefusesAFileThatIsNotThereBeforeAnythingIsInstalled) {
  const ScriptsAlone scripts;
  const std::string option = "--" + GetParam().input;
  const std::string missing = scripts.path("none");
  const test::ChildResult result = scripts.run(GetParam(), {option, missing});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, StartsWith("run.sh: " + option + ": '" + missing + "' is not there; see examples/"));
  const bool folder = GetParam().input_is_folder;
  const test::ChildResult other = scripts.run(GetParam(), {option, scripts.path(folder ? "texts" : "bin")});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr(folder ? "is a file, not a folder" : "is a folder, not a file"));
  EXPECT_EQ(scripts.calls(), "");
}

TEST_P(RunScript, PrintsOnStandardOutputWhatItsProgramsPrint) {
  const ScriptsAlone scripts;
  const std::string input = scripts.path(GetParam().input_is_folder ? "bin" : "texts");
  const test::ChildResult result = scripts.run(GetParam(), {"--" + GetParam().input, input, "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, MatchesRegex("(\\{\"a\":1\\}\n)+"));
  EXPECT_THAT(scripts.calls(), StartsWith("setup.sh \n"));
}

TEST(RunExample, LooksForEveryFileAndFolderThatIsGiven) {
  const ScriptsAlone scripts;
  const std::string text = scripts.path("texts");
  EXPECT_THAT(scripts.run({.name = "mlm"}, {"--text", text, text + "2"}).err, HasSubstr("texts2' is not there"));
  const Script t5 = {.name = "text_to_text"};
  EXPECT_THAT(scripts.run(t5, {"--csv", text + "2"}).err, HasSubstr("--csv: '" + text + "2' is not there"));
  EXPECT_THAT(scripts.run(t5, {"--model", text}).err, HasSubstr("--model: '" + text + "' is a file, not a folder"));
  EXPECT_EQ(scripts.calls(), "");
}

// The calls of a program, and its options in them.
std::vector<std::string> calls_of(const std::string& calls, const std::string& program) {
  std::vector<std::string> found;
  std::istringstream lines(calls);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(program + " ")) found.push_back(line + " ");
  }
  return found;
}

// Those that prepare and train in one folder.
const std::vector<Script> kPreparing = {{.name = "mlm", .program = "train_mlm"},
                                        {.name = "text_to_text", .program = "train_text_to_text"}};

TEST(RunExample, SaysWhatTheRunIsOnceWhenTheDataAreThere) {
  for (const Script& script : kPreparing) {
    const ScriptsAlone scripts;
    const test::ChildResult result = scripts.run(script, {"--packages", scripts.path("texts")});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const size_t table = result.err.find("{\"a\":1}");
    const size_t preparation = result.err.find(script.name == "mlm" ? "== writing shards\n" : "== preparing rows\n");
    ASSERT_NE(preparation, std::string::npos);
    ASSERT_NE(table, std::string::npos);
    EXPECT_GT(table, preparation);
    EXPECT_LT(table, result.err.find("== training the model\n"));
    EXPECT_EQ(result.err.find("{\"a\":1}", table + 1), std::string::npos);
    const std::vector<std::string> calls = calls_of(scripts.calls(), script.program);
    ASSERT_EQ(calls.size(), 3U);
    EXPECT_THAT(calls[0], AllOf(HasSubstr(" --check "), HasSubstr("/none ")));
    EXPECT_THAT(calls[1], AllOf(HasSubstr(" --check "), Not(HasSubstr("/none "))));
    EXPECT_THAT(calls[2], Not(HasSubstr(" --check ")));
  }
}

TEST(RunExample, AsksForNoEvaluationByItselfWhereThereAreNoValidationRows) {
  for (const Script& script : kPreparing) {
    for (const bool has_rows : {false, true}) {
      const ScriptsAlone scripts;
      if (has_rows) scripts.write("out/shards/validation/dataset-0-1.tfrecord.zst");
      scripts.write(has_rows ? "out/rows/validation-1.tfrecord" : "out/rows/validation-0.tfrecord");
      ASSERT_EQ(scripts.run(script, {"--packages", scripts.path("texts")}).exit_code, 0);
      const std::string training = calls_of(scripts.calls(), script.program).back();
      EXPECT_EQ(training.find(" --evaluate-every ") != std::string::npos, has_rows) << training;
      EXPECT_EQ(training.find(" --keep-best ") != std::string::npos, has_rows && script.name != "mlm") << training;
      ASSERT_EQ(scripts.run(script, {"--packages", scripts.path("texts"), "--evaluate-every", "7"}).exit_code, 0);
      EXPECT_THAT(calls_of(scripts.calls(), script.program).back(), HasSubstr(" --evaluate-every 7 "));
    }
  }
}

TEST(RunExample, TrainsAGivenT5AtARateForOneThatHasLearnt) {
  const ScriptsAlone scripts;
  const auto training = [&](std::vector<std::string> options) {
    options.insert(options.end(), {"--packages", scripts.path("texts")});
    EXPECT_EQ(scripts.run({.name = "text_to_text"}, options).exit_code, 0);
    return calls_of(scripts.calls(), "train_text_to_text").back();
  };
  EXPECT_THAT(training({}), HasSubstr(" --learning-rate 1e-3 "));
  EXPECT_THAT(training({"--model", scripts.path("bin")}), HasSubstr(" --learning-rate 1e-4 "));
  EXPECT_THAT(training({"--model", scripts.path("bin"), "--learning-rate", "2e-5"}),
              HasSubstr(" --learning-rate 2e-5 "));
}

TEST(RunExample, TakesNoOptionsOfTheDataWhereItGoesOnWithThoseThereAre) {
  const ScriptsAlone scripts;
  const std::vector<std::pair<std::string, std::vector<std::string>>> options = {
      {"mlm", {"packages", "text", "invalid-utf8", "vocab-size"}},
      {"text_to_text", {"packages", "csv", "prepare-option"}}};
  for (const auto& [name, of_data] : options) {
    for (const std::string& option : of_data) {
      const test::ChildResult result =
          scripts.run({.name = name}, {"--resume", "last", "--" + option, scripts.path("texts")});
      EXPECT_EQ(result.exit_code, 2);
      EXPECT_THAT(result.err, StartsWith("run.sh: --" + option + " is of "));
    }
  }
  EXPECT_EQ(scripts.calls(), "");
}

INSTANTIATE_TEST_SUITE_P(
    Examples, RunScript,
    ::testing::Values(
        Script{.name = "mlm", .program = test::kTrainMlm, .own = {"check", "shards", "tokenizer", "synthetic"}},
        Script{.name = "quest",
               .program = test::kTrainQuest,
               .own = {"check", "shards", "tokenizer", "dropout", "initializer-range", "steps", "start-rate",
                       "end-rate", "warmup-steps", "decay", "milestones", "milestone-factor", "freeze", "phase"},
               .switches = {"overwrite", "json", "dynamic", "resume"}},
        Script{.name = "text_to_text", .program = test::kTrainTextToText, .own = {"check", "rows"}},
        Script{.name = "frozen_features",
               .program = test::kTrainFrozenFeatures,
               .own = {"set"},
               .switches = {"overwrite", "json", "resume"},
               .input = "pictures",
               .input_is_folder = true}),
    [](const auto& script) { return script.param.name; });

class RunQuest : public ::testing::Test {
 protected:
  RunQuest() { make("model"); }
  // What the programs are called with, of which all end well.
  std::string calls_with(const std::vector<std::string>& options) const {
    const test::ChildResult result = scripts_.run({.name = "quest"}, options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const std::string calls = scripts_.calls();
    return calls.substr(calls.find("predict_quest\n"));  // after what is built
  }
  std::string refusal(const std::vector<std::string>& options) const {
    const test::ChildResult result = scripts_.run({.name = "quest"}, options);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(scripts_.calls(), "");
    return result.err;
  }
  void make(const std::string& folder) const { std::filesystem::create_directories(scripts_.path(folder)); }
  std::vector<std::string> packages(const std::vector<std::string>& more) const {
    std::vector<std::string> options = {"--packages", scripts_.path("texts")};
    options.insert(options.end(), more.begin(), more.end());
    return options;
  }

  const ScriptsAlone scripts_;
};

TEST_F(RunQuest, RefusesBeforeAnythingIsInstalledWhatWouldEndItLater) {
  EXPECT_THAT(refusal({"--ensemble", "votes"}), HasSubstr("--ensemble is 'votes', must be logits, probabilities or"));
  EXPECT_THAT(refusal({"--overwrite", "--resume"}), HasSubstr("--overwrite begins anew, and --resume goes on"));
  make("out/encoder/model");
  EXPECT_THAT(refusal(packages({"--fold", "1"})), HasSubstr("give --resume, --overwrite, or another --out"));
  std::filesystem::remove_all(scripts_.path("out"));
  make("out/fold-1");
  EXPECT_THAT(refusal({"--csv", scripts_.path("texts"), "--model", scripts_.path("model")}),
              HasSubstr("holds an earlier run; give --resume, --overwrite, or another --out"));
}

TEST_F(RunQuest, LooksAtWhatIsToBeTrainedBeforeTheEncoderIs) {
  const std::string calls = calls_with(packages({"--fold", "1"}));
  const size_t first = calls.find("train_quest --check");
  ASSERT_THAT(calls, AllOf(HasSubstr("train_unigram "), HasSubstr("train_mlm ")));
  EXPECT_LT(first, calls.find("train_unigram "));  // rows of an earlier run are not looked at
  EXPECT_THAT(calls.substr(first, calls.find('\n', first) - first),
              ContainsRegex("--layers 2 .*--shards .*/build/quest/none$"));
  const size_t check = calls.find("train_quest --check", first + 1);
  EXPECT_LT(calls.find("prepare_quest"), check);
  EXPECT_LT(check, calls.find("train_mlm"));
  EXPECT_THAT(calls.substr(check, calls.find('\n', check) - check),
              AllOf(HasSubstr(" --fold 1 "), HasSubstr("learning-rate=2e-3"), HasSubstr(" --layers 2 ")));
}

TEST_F(RunQuest, PredictsNoTestRowsWhereNoneAreAskedFor) {
  const std::string calls = calls_with(packages({"--test-rows", "0"}));
  EXPECT_THAT(calls, Not(HasSubstr("--test-")));
  const size_t prediction = calls.find("predict_quest --models");
  ASSERT_NE(prediction, std::string::npos);
  EXPECT_EQ(calls.find("--csv", prediction), std::string::npos);
}

TEST_F(RunQuest, GoesOnWithWhatIsWhole) {
  make("out/encoder/shards");
  make("out/shards");
  test::write_file(scripts_.path("out/tokenizer.json"), "{}");
  test::write_file(scripts_.path("out/shards/statistics.json"), "{}");
  EXPECT_THAT(calls_with(packages({"--resume"})),
              AllOf(Not(HasSubstr("train_unigram ")), Not(HasSubstr("prepare_quest")),
                    ContainsRegex("train_mlm .* --resume last"), ContainsRegex("train_quest .* --resume last")));
  make("out/encoder/model");
  std::filesystem::remove(scripts_.path("calls"));
  EXPECT_THAT(calls_with(packages({"--resume", "--fold", "1"})),
              AllOf(Not(HasSubstr("train_mlm ")), ContainsRegex("train_quest .*--fold 1 .*--resume last"),
                    HasSubstr("--model " + scripts_.path("out/encoder/model"))));
}

TEST_F(RunQuest, GoesOnWithTheOptionsItBeganWithAlone) {
  calls_with(packages({"--rows", "100", "--prepare-option", "--tags", "7"}));
  std::filesystem::remove(scripts_.path("calls"));
  test::write_file(scripts_.path("out/tokenizer.json"), "{}");
  EXPECT_THAT(refusal(packages({"--resume", "--rows", "200", "--prepare-option", "--tags", "7"})),
              HasSubstr("the earlier run had '--rows 100', this one '--rows 200'"));
  EXPECT_THAT(refusal(packages({"--resume", "--rows", "100", "--prepare-option", "--tags", "8"})),
              HasSubstr("the earlier run had '--prepare-option --tags 7', this one '--prepare-option --tags 8'"));
  EXPECT_THAT(refusal(packages({"--resume", "--rows", "100", "--prepare-option", "--tags", "7", "--seed", "9"})),
              HasSubstr("this one '--seed 9'"));
  EXPECT_TRUE(std::filesystem::exists(scripts_.path("out/tokenizer.json")));
  calls_with(packages({"--resume", "--rows", "100", "--prepare-option", "--tags", "7"}));
}

TEST_F(RunQuest, GoesOnWithNothingOfARunThatWasToBeReplaced) {
  make("out/encoder/model");
  make("out/encoder/checkpoints");
  make("out/fold-0/checkpoints");
  make("out/shards");
  test::write_file(scripts_.path("out/tokenizer.json"), "{}");
  test::write_file(scripts_.path("out/shards/statistics.json"), "{}");
  // The programs write nothing here: as if it had been stopped at once.
  calls_with(packages({"--overwrite", "--rows", "300"}));
  std::filesystem::remove(scripts_.path("calls"));
  EXPECT_THAT(calls_with(packages({"--resume", "--rows", "300"})),
              AllOf(HasSubstr("train_unigram "), HasSubstr("prepare_quest "), ContainsRegex("train_mlm .* --overwrite"),
                    ContainsRegex("train_quest .* --resume last")));
  EXPECT_FALSE(std::filesystem::exists(scripts_.path("out/fold-0")));
  // What is younger stays.
  make("out/fold-0/checkpoints");
  test::write_file(scripts_.path("out/shards/statistics.json"), "{}");
  std::filesystem::remove(scripts_.path("calls"));
  EXPECT_THAT(calls_with(packages({"--resume", "--rows", "300"})), Not(HasSubstr("prepare_quest ")));
  EXPECT_TRUE(std::filesystem::exists(scripts_.path("out/fold-0")));
}

TEST_F(RunQuest, TakesTheRatesOfALargeModelAndOtherColumnsWhereTheyAreGiven) {
  const std::vector<std::string> own = {"--csv",
                                        scripts_.path("texts"),
                                        "--model",
                                        scripts_.path("model"),
                                        "--prepare-option",
                                        "--question-targets",
                                        "q_.*",
                                        "--prepare-option",
                                        "--max-title",
                                        "9"};
  EXPECT_THAT(calls_with(own), AllOf(ContainsRegex("prepare_quest .*--question-targets q_\\.\\* --max-title 9"),
                                     HasSubstr("--phase epochs=1,learning-rate=1e-3,"),
                                     HasSubstr("--phase epochs=3,learning-rate=3e-5,start-rate=1e-06,")));
  std::filesystem::remove(scripts_.path("calls"));
  std::vector<std::string> given = own;
  given.insert(given.end(), {"--learning-rate", "1e-5", "--epochs", "2", "--head-learning-rate", "1e-2", "--test-csv",
                             scripts_.path("texts")});
  EXPECT_THAT(calls_with(given), AllOf(ContainsRegex("prepare_quest .* --rows-to-predict "),
                                       HasSubstr("--phase epochs=1,learning-rate=1e-2,"),
                                       HasSubstr("--phase epochs=2,learning-rate=1e-5,")));
}

class RunSuperResolution : public ::testing::Test {
 protected:
  RunSuperResolution() {
    for (const char* const name : {"one.jpg", "two.png", "three.jpeg"}) scripts_.write(std::string("pictures/") + name);
  }
  test::ChildResult run(const std::vector<std::string>& options) const {
    return scripts_.run({.name = "super_resolution"}, options);
  }
  // The names of the programs that were called, in order.
  std::vector<std::string> programs() const {
    std::vector<std::string> names;
    std::istringstream lines(scripts_.calls());
    for (std::string line; std::getline(lines, line);) names.push_back(line.substr(0, line.find(' ')));
    return names;
  }
  std::string call(const std::string& program) const { return calls_of(scripts_.calls(), program).back(); }
  std::string pictures() const { return scripts_.path("pictures"); }

  const ScriptsAlone scripts_;
};

TEST_F(RunSuperResolution, GoesFromPicturesToFiguresOfThoseThatAreHeldOut) {
  const test::ChildResult result = run({"--pictures", pictures(), "--held-out", "one", "three", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, MatchesRegex("(\\{\"a\":1\\}\n)+"));
  EXPECT_THAT(programs(), ::testing::ElementsAre("setup.sh", "cmake", "cmake", "prepare_super_resolution",
                                                 "train_super_resolution", "train_super_resolution",
                                                 "interpolate_super_resolution", "distill_super_resolution",
                                                 "measure_super_resolution", "upscale_super_resolution"));
  EXPECT_THAT(call("prepare_super_resolution"),
              AllOf(HasSubstr("--pictures " + pictures() + " --out "), HasSubstr(" --held-out one three "),
                    HasSubstr(" --json "), Not(HasSubstr("--shrink"))));
  EXPECT_THAT(call("train_super_resolution"),
              AllOf(HasSubstr("--gan --replicas 2 --model "), HasSubstr(" --blocks 2 --add-bicubic "),
                    HasSubstr("/phase2 --steps 500 "), HasSubstr(" --decay milestones --milestones 250:375 ")));
  EXPECT_THAT(call("measure_super_resolution"),
              HasSubstr("--pictures " + pictures() + "/one.jpg " + pictures() + "/three.jpeg --model phase1="));
  EXPECT_THAT(call("upscale_super_resolution"), HasSubstr("/looks/one.small.png "));
}

TEST_F(RunSuperResolution, TakesThePhotographsOfDebianWhereNoneAreGiven) {
  ASSERT_EQ(run({}).exit_code, 0);
  EXPECT_THAT(scripts_.calls(), HasSubstr("\nsetup.sh --photographs\n"));
  EXPECT_THAT(call("prepare_super_resolution"),
              AllOf(HasSubstr(" --shrink 4 "), HasSubstr(" --held-out GreenMeadow LadyBird YellowFlower ")));
}

TEST_F(RunSuperResolution, HasThePresetOfTheOriginal) {
  ASSERT_EQ(run({"--pictures", pictures(), "--preset", "original", "--steps", "90"}).exit_code, 0);
  EXPECT_THAT(call("prepare_super_resolution"),
              AllOf(HasSubstr(" --preset original "), Not(HasSubstr("--crop")), Not(HasSubstr("--stride"))));
  EXPECT_THAT(calls_of(scripts_.calls(), "train_super_resolution").front(),
              AllOf(HasSubstr(" --blocks 11 "),
                    HasSubstr(" --steps 90 --learning-rate 2e-4 --decay milestones --milestones 30:60 "),
                    HasSubstr(" --global-batch 32 --replicas 16 ")));
  // A replica has two rows.
  EXPECT_THAT(call("train_super_resolution"),
              AllOf(HasSubstr("--gan --model "), HasSubstr(" --steps 400000 --learning-rate 5e-5 "),
                    HasSubstr(" --global-batch 32 --replicas 16 ")));
  ASSERT_EQ(run({"--pictures", pictures(), "--preset", "original", "--global-batch", "8", "--overwrite"}).exit_code, 0);
  EXPECT_THAT(call("train_super_resolution"), HasSubstr(" --global-batch 8 --replicas 4 "));
}

TEST_F(RunSuperResolution, GivesEachReplicaTwoRowsWhereThereIsADiscriminator) {
  ASSERT_EQ(run({"--pictures", pictures(), "--replicas", "4"}).exit_code, 0);
  for (const char* const program : {"train_super_resolution", "distill_super_resolution"}) {
    EXPECT_THAT(call(program), HasSubstr(" --global-batch 8 --replicas 4 "));
  }
  for (const char* const replicas : {"5", "0", "x"}) {
    const test::ChildResult result = run({"--pictures", pictures(), "--overwrite", "--replicas", replicas});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(std::string("--global-batch is '8' and --replicas '") + replicas + "'"));
  }
}

TEST_F(RunSuperResolution, MeasuresNothingWhereNothingIsHeldOut) {
  ASSERT_EQ(run({"--pictures", pictures()}).exit_code, 0);
  EXPECT_EQ(programs().back(), "distill_super_resolution");
}

TEST_F(RunSuperResolution, GoesOnWithWhatIsWhole) {
  scripts_.write("out/shards/statistics.json");
  scripts_.write("out/phase1/model/config.json");
  ASSERT_EQ(run({"--pictures", pictures(), "--resume"}).exit_code, 0);
  EXPECT_EQ(calls_of(scripts_.calls(), "prepare_super_resolution").size(), 0U);
  EXPECT_EQ(calls_of(scripts_.calls(), "train_super_resolution").size(), 1U);
  EXPECT_THAT(call("train_super_resolution"), AllOf(HasSubstr(" --gan "), HasSubstr(" --resume last ")));
}

TEST_F(RunSuperResolution, GoesOnWithNothingOfARunThatWasToBeReplaced) {
  for (const char* const file : {"shards/statistics.json", "phase1/model/config.json", "phase1/checkpoints/x",
                                 "phase2/model/config.json", "student/model/config.json"}) {
    scripts_.write(std::string("out/") + file);
  }
  const std::vector<std::string> options = {"--pictures", pictures(), "--blocks", "3"};
  const auto with = [&](const char* option) {
    std::vector<std::string> all = options;
    all.emplace_back(option);
    return all;
  };
  ASSERT_EQ(run(with("--overwrite")).exit_code, 0);  // as if it had been stopped at once: the programs write nothing
  std::filesystem::remove(scripts_.path("calls"));
  ASSERT_EQ(run(with("--resume")).exit_code, 0);
  EXPECT_EQ(calls_of(scripts_.calls(), "prepare_super_resolution").size(), 1U);
  ASSERT_EQ(calls_of(scripts_.calls(), "train_super_resolution").size(), 2U);
  EXPECT_THAT(calls_of(scripts_.calls(), "train_super_resolution")[0], HasSubstr(" --overwrite"));
  EXPECT_THAT(calls_of(scripts_.calls(), "train_super_resolution")[1], HasSubstr(" --resume last"));
  EXPECT_EQ(calls_of(scripts_.calls(), "distill_super_resolution").size(), 1U);
}

TEST_F(RunSuperResolution, TrainsTheStudentWithADiscriminatorWhereAskedTo) {
  ASSERT_EQ(run({"--pictures", pictures(), "--held-out", "one", "--student-gan-steps", "8"}).exit_code, 0);
  EXPECT_EQ(calls_of(scripts_.calls(), "distill_super_resolution").size(), 2U);
  EXPECT_THAT(call("distill_super_resolution"),
              AllOf(HasSubstr("--gan --replicas 2 --model " + scripts_.path("out/student/model")),
                    HasSubstr(" --teacher " + scripts_.path("out/model") + " --channels 32 "),
                    HasSubstr(" --steps 8 --learning-rate 5e-5 --decay milestones --milestones 4:6 ")));
  EXPECT_THAT(call("measure_super_resolution"), HasSubstr(" student2=" + scripts_.path("out/student2/model ")));
}

TEST_F(RunSuperResolution, LeavesAnEarlierRunAsItIs) {
  scripts_.write("out/shards/statistics.json");
  scripts_.write("out/phase1/model/config.json");
  const auto refusal = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"--pictures", pictures()});
    const test::ChildResult result = run(options);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(scripts_.calls(), "");
    return result.err;
  };
  EXPECT_THAT(refusal({}), HasSubstr("holds an earlier run; give --resume, --overwrite"));
  test::write_file(scripts_.path("out/run_options"), "--crop 64\n--held-out \n--steps 40\n");
  EXPECT_THAT(refusal({"--resume", "--steps", "40", "--crop", "32"}),
              HasSubstr("the earlier run had '--crop 64', this one '--crop 32'; give the same options"));
  EXPECT_THAT(refusal({"--resume"}), HasSubstr("the earlier run had '--steps 40', this one '--steps 3000'"));
  EXPECT_THAT(refusal({"--resume", "--steps", "40", "--held-out", "one", "two"}),
              HasSubstr("the earlier run had '--held-out', this one '--held-out one two'"));
  const std::string options = test::read_file(scripts_.path("out/run_options"));
  ASSERT_EQ(run({"--pictures", pictures(), "--resume", "--steps", "40"}).exit_code, 0);
  EXPECT_EQ(test::read_file(scripts_.path("out/run_options")), options);
}

TEST_F(RunSuperResolution, TakesWholePhotographsForThePresetAndNoOtherFilesForHeldOut) {
  ASSERT_EQ(run({"--preset", "original"}).exit_code, 0);
  EXPECT_THAT(call("prepare_super_resolution"), Not(HasSubstr("--shrink")));
  scripts_.write("pictures/one.txt");
  ASSERT_EQ(run({"--pictures", pictures(), "--held-out", "one", "--overwrite"}).exit_code, 0);
  EXPECT_THAT(call("measure_super_resolution"), Not(HasSubstr("one.txt")));
  scripts_.write("pictures/one.PNG");
  const test::ChildResult result = run({"--pictures", pictures(), "--held-out", "one", "--overwrite"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--held-out: two pictures are called one"));
}

TEST_F(RunSuperResolution, RefusesBeforeAnythingIsInstalledWhatWouldEndItLater) {
  const auto refusal = [&](const std::vector<std::string>& options) {
    const test::ChildResult result = run(options);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(scripts_.calls(), "");
    return result.err;
  };
  EXPECT_THAT(refusal({"--pictures", pictures(), scripts_.path("none")}), HasSubstr("none' is not there"));
  EXPECT_THAT(refusal({"--features", scripts_.path("none")}), HasSubstr("--features: '"));
  EXPECT_THAT(refusal({"--gan-steps", "3"}), HasSubstr("--gan-steps is '3', must be at least 4"));
  EXPECT_THAT(refusal({"--preset", "small"}), HasSubstr("--preset is 'small', must be original"));
  EXPECT_THAT(refusal({"--preset", "original", "--crop", "64"}), HasSubstr("--crop is what --preset has"));
  EXPECT_THAT(refusal({"--overwrite", "--resume"}), HasSubstr("--overwrite begins anew, and --resume goes on"));
}

// What becomes of --steps and --warmup-steps, where their defaults are 9000 and 200.
std::string length_given(const std::vector<std::string>& options) {
  std::vector<std::string> command = {
      "/bin/bash", "-euc",
      "repository=none example=mlm; declare -A value=([steps]=9000); source \"$0\"\n"
      "read_options '' 'steps epochs warmup-steps' phase \"$@\"; settle_length 200 \"${phase[@]}\"\n"
      "arguments_of steps epochs warmup-steps; echo -n \"${arguments[@]}\"",
      test::source_path("examples/run_example.bash")};
  command.insert(command.end(), options.begin(), options.end());
  const test::ChildResult result = test::run_child(command);
  return result.out + result.err;
}

TEST(RunExample, LeavesTheDefaultOfStepsOutWhereTheLengthIsGivenInAnotherWay) {
  EXPECT_EQ(length_given({}), "--steps 9000 --warmup-steps 200");
  EXPECT_EQ(length_given({"--steps", "100"}), "--steps 100 --warmup-steps 100");
  EXPECT_EQ(length_given({"--steps=100", "--warmup-steps=7"}), "--steps 100 --warmup-steps 7");
  EXPECT_EQ(length_given({"--epochs", "3"}), "--epochs 3 --warmup-steps 5%");
  EXPECT_EQ(length_given({"--epochs", "3", "--steps", "50"}), "--steps 50 --epochs 3 --warmup-steps 5%");
  EXPECT_EQ(length_given({"--phase", "steps=3,decay=cosine", "--phase", "epochs=1"}), "--warmup-steps 5%");
  EXPECT_EQ(length_given({"--phase", "steps=3", "decay=cosine"}), "--steps 9000 --warmup-steps 5%");
}

TEST(RunFrozenFeatures, InstallsPicturesOnlyWhereNoneAreGiven) {
  const Script script = {.name = "frozen_features"};
  const ScriptsAlone own;
  ASSERT_EQ(own.run(script, {"--pictures", own.path("bin"), "--without", "a", "b"}).exit_code, 0);
  EXPECT_THAT(own.calls(), AllOf(Not(HasSubstr("setup.sh --pictures")), HasSubstr(" --without a b\n"),
                                 Not(HasSubstr("--classes")), Not(HasSubstr("--damage")), HasSubstr(" --size 96 ")));
  const ScriptsAlone scripts;
  ASSERT_EQ(scripts.run(script, {"--features", scripts.path("texts")}).exit_code, 0);
  EXPECT_THAT(scripts.calls(),
              AllOf(HasSubstr("setup.sh --pictures\n"), HasSubstr(" --classes 8 --pictures-per-class 150 --size 224 "),
                    HasSubstr(" --damage skip "), HasSubstr(" --without unsorted\n")));
}

TEST(RunFrozenFeatures, GoesOnWithFeaturesThatAreWhole) {
  const Script script = {.name = "frozen_features"};
  const ScriptsAlone scripts;
  const std::vector<std::string> pictures = {"--pictures", scripts.path("bin")};
  scripts.write("out/checkpoints/checkpoint-00000001/training.json");
  const test::ChildResult refused = scripts.run(script, pictures);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("holds an earlier run; give --resume, --overwrite"));
  EXPECT_EQ(scripts.run(script, {"--resume", "--overwrite"}).exit_code, 2);
  ASSERT_EQ(scripts.run(script, {"--pictures", scripts.path("bin"), "--resume"}).exit_code, 0);
  EXPECT_EQ(calls_of(scripts.calls(), "prepare_frozen_features").size(), 1U);
  scripts.write("out/features/statistics.json");
  ASSERT_EQ(scripts.run(script, {"--pictures", scripts.path("bin"), "--resume"}).exit_code, 0);
  EXPECT_EQ(calls_of(scripts.calls(), "prepare_frozen_features").size(), 1U);
  EXPECT_EQ(calls_of(scripts.calls(), "train_frozen_features").size(), 2U);
  const test::ChildResult other = scripts.run(script, {"--pictures", scripts.path("bin"), "--resume", "--size", "128"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("the earlier run had '--size 96', this one '--size 128'"));
  // One that was to be replaced, and was stopped at once: the programs write nothing here.
  const std::vector<std::string> anew = {"--pictures", scripts.path("bin"), "--size", "128"};
  for (const char* const option : {"--overwrite", "--resume"}) {
    std::vector<std::string> options = anew;
    options.emplace_back(option);
    ASSERT_EQ(scripts.run(script, options).exit_code, 0);
  }
  EXPECT_EQ(calls_of(scripts.calls(), "prepare_frozen_features").size(), 3U);
  EXPECT_THAT(calls_of(scripts.calls(), "train_frozen_features").back(), HasSubstr(" --overwrite"));
}

// examples/packages/fetch.sh on lists of our own, which apt takes for those of its one source.
class FetchPackages : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists("/usr/lib/apt/apt-helper")) GTEST_SKIP() << "fetch.sh reads lists with apt";
  }
  FetchPackages() {
    std::filesystem::create_directories(path("lists/partial"));
    test::write_file(path("apt.conf"), "Dir::Etc::SourceList \"" + path("sources.list") +
                                           "\";\nDir::Etc::SourceParts \"" + path("none") + "\";\n");
    test::write_file(path("sources.list"), "deb [arch=amd64] http://example.invalid/debian stable main\n");
    write("Release", "Suite: stable\nCodename: stable\n");
    write_lists(3);
  }
  void write_lists(int num_packages) {
    packages_ = texts_ = "";
    for (int n = 1; n <= num_packages; ++n) {
      const std::string digest = fmt::format("{:032}", n);
      packages_ += fmt::format(
          "Package: p{0}\nSource: s{0} (1.0)\nVersion: 1\nArchitecture: all\nSection: contrib/misc\n{1}"
          "Description-md5: {2}\nFilename: x\nSize: 1\n\n",
          n, n == 2 ? "" : "Tag: a::b,\n c::d\n", digest);
      texts_ += fmt::format(
          "Package: p{0}\nDescription-md5: {1}\nDescription-en: thing {0}\n long text of {0}\n .\n more\n\n", n,
          digest);
    }
    write("main_binary-amd64_Packages", packages_);
    write("main_i18n_Translation-en", texts_);
  }
  std::string path(const std::string& below) const { return folder_.path(below); }
  void write(const std::string& list, const std::string& text) const {
    test::write_file(path("lists/example.invalid_debian_dists_stable_" + list), text);
  }
  test::ChildResult fetch() const {
    return test::run_child(
        {test::source_path("examples/packages/fetch.sh"), "--out", path("out"), "--lists", path("lists")},
        {.environment = {"APT_CONFIG=" + path("apt.conf")}});
  }

  std::string packages_;
  std::string texts_;
  test::TemporaryFolder folder_;
};

TEST_F(FetchPackages, JoinsPackagesWithTheirDescriptions) {
  const test::ChildResult result = fetch();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("3 packages, 2 of them tagged\n"));
  EXPECT_THAT(test::read_file(path("out")),
              AllOf(StartsWith("Package: p1\nSource: s1\nSection: misc\nTag: a::b, c::d\n"
                               "Description: thing 1\n long text of 1\n .\n more\n\n"),
                    HasSubstr("Package: p2\nSource: s2\nSection: misc\nDescription: thing 2\n")));
}

TEST_F(FetchPackages, RefusesListsThatAreCut) {
  const size_t third = texts_.find("Package: p3");
  for (const std::string& text : {texts_.substr(0, third), texts_.substr(0, texts_.size() - 7)}) {
    write("main_i18n_Translation-en", text);
    const test::ChildResult result = fetch();
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("fetch.sh: Translation-en in " + path("lists") + " is cut"));
    EXPECT_FALSE(std::filesystem::exists(path("out")));
  }
  write("main_i18n_Translation-en", "Package: p1\n\n");
  EXPECT_THAT(fetch().err, HasSubstr("have no package with a description: they are of another form"));
}

TEST_F(FetchPackages, SaysHowManyPackagesItLeavesOut) {
  write_lists(40);
  write("main_i18n_Translation-en", texts_.substr(0, texts_.find("Package: p40")));
  const test::ChildResult result = fetch();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("39 packages, 38 of them tagged, 1 without a description left out\n"));
}

TEST_F(FetchPackages, SaysInOneLineWhatAptDoesNotRead) {
  const std::string html = "<html><body>Sign in</body></html>\n";
  for (const auto& [list, text] : {std::pair{"main_binary-amd64_Packages", html},
                                   {"main_binary-amd64_Packages", packages_.substr(0, packages_.size() - 2)},
                                   {"main_binary-amd64_Packages", packages_.substr(0, packages_.size() - 7)},
                                   {"main_i18n_Translation-en", html},
                                   {"main_i18n_Translation-en", texts_.substr(0, texts_.size() - 70)}}) {
    write_lists(3);
    write(list, text);
    const test::ChildResult result = fetch();
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, StartsWith("fetch.sh: the lists in " + path("lists") + " are cut or of another form: "));
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_FALSE(std::filesystem::exists(path("out")));
  }
}

}  // namespace
}  // namespace millrace
