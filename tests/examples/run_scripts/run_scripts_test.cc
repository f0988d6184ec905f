#include <algorithm>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/child_process.h"
#include "tests/support/places.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSubsetOf;
using ::testing::StartsWith;

// examples/NAME/run.sh, its training program, and the options of that program which the script sets by itself or does
// not give on.
struct Script {
  std::string name;
  const char* program = nullptr;
  std::set<std::string> own;
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
  const std::set<std::string> switches = {"overwrite", "json", "dynamic"};
  std::vector<std::string> command = {path_of(GetParam())};
  for (const std::string& name : options_in(help.out)) {
    command.push_back("--" + name);
    if (!switches.contains(name)) command.emplace_back("1");
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
  const test::ChildResult argument = test::run_child({path_of(GetParam()), "packages.txt"});
  EXPECT_EQ(argument.exit_code, 2);
  EXPECT_THAT(argument.err, HasSubstr("'packages.txt' is not an option"));
  const test::ChildResult with = test::run_child({path_of(GetParam()), "--json=yes"});
  EXPECT_EQ(with.exit_code, 2);
  EXPECT_THAT(with.err, HasSubstr("--json takes no value"));
}

INSTANTIATE_TEST_SUITE_P(
    Examples, RunScript,
    ::testing::Values(
        Script{.name = "mlm", .program = test::kTrainMlm, .own = {"check", "shards", "tokenizer", "synthetic"}},
        Script{.name = "quest",
               .program = test::kTrainQuest,
               .own = {"check", "resume", "shards", "tokenizer", "dropout", "initializer-range", "steps", "start-rate",
                       "end-rate", "warmup-steps", "decay", "freeze", "phase"}},
        Script{.name = "text_to_text", .program = test::kTrainTextToText, .own = {"check", "rows"}}),
    [](const auto& script) { return script.param.name; });

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

}  // namespace
}  // namespace millrace
