#include "millrace/command_line/number_options.h"

#include <charconv>
#include <functional>
#include <iostream>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "benchmarks/bench_options.h"
#include "examples/mlm/fill_mask_options.h"
#include "examples/mlm/prepare_options.h"
#include "examples/mlm/train_mlm_options.h"
#include "examples/mlm/train_unigram_options.h"
#include "millrace/command_line/command_line.h"
#include "millrace/formats/error.h"
#include "tests/support/child_process.h"
#include "tests/support/places.h"
#include "tools/shard_arguments.h"

namespace millrace {
namespace {

namespace po = boost::program_options;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

// What a program answers to options and `--help`: the values are looked at before it is printed.
struct Answer {
  bool taken = false;
  std::string text;  // the help, or the message
};
using Ask = std::function<Answer(std::vector<std::string> arguments)>;

struct Program {
  std::string name;
  Ask ask;
};

template <typename Parse>
Ask asking(const Parse& parse) {
  return [parse](std::vector<std::string> arguments) -> Answer {
    arguments.insert(arguments.begin(), "program");
    arguments.emplace_back("--help");
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    const std::ostringstream help;
    std::streambuf* const before = std::cout.rdbuf(help.rdbuf());
    Answer answer;
    try {
      answer.taken = !parse(static_cast<int>(pointers.size()), pointers.data());
      answer.text = help.str();
    } catch (const ErrorException& error) {
      answer.text = error.what();
    }
    std::cout.rdbuf(before);
    return answer;
  };
}

Ask asking_process(const char* path) {
  return [path](std::vector<std::string> arguments) -> Answer {
    arguments.insert(arguments.begin(), path);
    arguments.emplace_back("--help");
    const test::ChildResult result = test::run_child(arguments);
    if (result.exit_code == 0) return {.taken = true, .text = result.out};
    std::string line = result.err.substr(result.err.find(": ") + 2);  // without the program's name
    if (line.ends_with('\n')) line.pop_back();
    return {.taken = false, .text = line};
  };
}

std::vector<Program> all_programs() {
  const auto shard_arguments = [](int argc, const char* const* argv) {
    return parse_shard_arguments(argc, argv, {.name = "tool", .about = "", .usage = ""}, {});
  };
  return {{"train_mlm", asking(parse_train_mlm_options)},
          {"prepare_tfrecord_shards", asking(parse_prepare_options)},
          {"fill_mask", asking(parse_fill_mask_options)},
          {"train_unigram", asking(parse_train_unigram_options)},
          {"dataset_bench", asking(parse_bench_options)},
          {"dataset_index and dataset_verify", asking(shard_arguments)},
          {"bucket_leftovers", asking_process(test::kBucketLeftovers)},
          {"global_shuffle_bench", asking_process(test::kGlobalShuffleBench)},
          {"shard_storage_bench", asking_process(test::kShardStorageBench)},
          {"saved_elements_bench", asking_process(test::kSavedElementsBench)},
          {"gemm_share_bench", asking_process(test::kGemmShareBench)},
          {"training_soak", asking_process(test::kTrainingSoak)},
          {"prepare_quest", asking_process(test::kPrepareQuest)},
          {"train_quest", asking_process(test::kTrainQuest)},
          {"predict_quest", asking_process(test::kPredictQuest)},
          {"prepare_text_to_text", asking_process(test::kPrepareTextToText)},
          {"train_text_to_text", asking_process(test::kTrainTextToText)},
          {"predict_text_to_text", asking_process(test::kPredictTextToText)},
          {"prepare_super_resolution", asking_process(test::kPrepareSuperResolution)},
          {"train_super_resolution", asking_process(test::kTrainSuperResolution)},
          {"distill_super_resolution", asking_process(test::kDistillSuperResolution)},
          {"interpolate_super_resolution", asking_process(test::kInterpolateSuperResolution)},
          {"upscale_super_resolution", asking_process(test::kUpscaleSuperResolution)},
          {"measure_super_resolution", asking_process(test::kMeasureSuperResolution)},
          {"prepare_frozen_features", asking_process(test::kPrepareFrozenFeatures)},
          {"train_frozen_features", asking_process(test::kTrainFrozenFeatures)}};
}

// An option as the help shows it.
struct NumberOption {
  std::string name;
  std::string least;
  std::string most;
};

std::vector<NumberOption> number_options(const Program& program) {
  const std::string help = program.ask({}).text;
  const std::regex pattern("--([a-z-]+) (-?[0-9][0-9.e+-]*?)\\.\\.([0-9][0-9.e+-]*)");
  std::vector<NumberOption> found;
  for (std::sregex_iterator it(help.begin(), help.end(), pattern); it != std::sregex_iterator(); ++it) {
    found.push_back({.name = (*it)[1], .least = (*it)[2], .most = (*it)[3]});
  }
  return found;
}

bool is_whole(const std::string& text) { return text.find_first_of(".e") == std::string::npos; }

// Of what the option's limits say about it; the least and the most of all whole numbers are where doubles are not
// exact.
bool is_within(const std::string& text, const NumberOption& option) {
  long double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && value >= std::stold(option.least) && value <= std::stold(option.most);
}

TEST(NumberOptions, OfAllProgramsTakeWhatIsWithinTheirLimitsAndRefuseTheRestInOneLine) {
  for (const Program& program : all_programs()) {
    const std::vector<NumberOption> options = number_options(program);
    EXPECT_FALSE(options.empty()) << program.name;
    for (const NumberOption& option : options) {
      std::vector<std::string> values = {"-1",    "0", option.least, option.most, "9223372036854775808", "nan", "inf",
                                         "1e309", "",  "1x",         " 1"};
      if (is_whole(option.most)) {
        values.push_back(std::to_string(std::stoull(option.most) + 1));
        values.push_back(std::to_string(std::stoll(option.least) - 1));
      } else {
        values.push_back(fmt::format("{}", 2 * std::stod(option.most)));
      }
      for (const std::string& value : values) {
        const Answer answer = program.ask({"--" + option.name, value});
        const std::string what = fmt::format("{} --{} '{}': {}", program.name, option.name, value, answer.text);
        EXPECT_EQ(answer.taken, is_within(value, option)) << what;
        if (answer.taken) continue;
        EXPECT_EQ(answer.text, fmt::format("invalid_argument: --{} is {}; {} to {} are possible", option.name,
                                           value.empty() ? "''" : value, option.least, option.most))
            << what;
      }
      EXPECT_EQ(
          program.ask({"--" + option.name + "="}).text,
          fmt::format("invalid_argument: --{} is ''; {} to {} are possible", option.name, option.least, option.most));
    }
  }
}

TEST(NumberOptions, OfTrainMlmIncludeThoseThatTookAnything) {
  std::vector<std::string> names;
  for (const NumberOption& option : number_options(all_programs()[0])) names.push_back(option.name);
  EXPECT_THAT(names, IsSupersetOf({"accumulate", "replicas", "threads", "steps", "learning-rate", "watchdog",
                                   "max-skipped-records", "max-skipped-share"}));
  const Answer answer = all_programs()[0].ask({"--replicas", "1000000"});
  EXPECT_EQ(answer.text, "invalid_argument: --replicas is 1000000; 1 to 1024 are possible");
}

TEST(NumberOptions, WithoutLimitsAreRefusedWhereTheyAreDeclared) {
  const auto parse = [](po::value_semantic* semantic) {
    const char* const argv[] = {"program"};
    po::options_description options("options");
    options.add_options()("number", semantic, "of something");
    (void)parse_command_line(1, argv, {.name = "program", .about = "", .usage = ""}, options);
  };
  EXPECT_THROW(parse(po::value<int64_t>()), std::logic_error);
  EXPECT_THROW(parse(po::value<double>()), std::logic_error);
  EXPECT_THROW(parse(po::value<std::vector<int>>()), std::logic_error);
  EXPECT_NO_THROW(parse(po::value<std::string>()));
  EXPECT_NO_THROW(parse(whole_number<int>(nullptr, {0, 1})));
}

TEST(NumberOptions, HaveLimitsThatTheirTypeHolds) {
  EXPECT_THROW((void)whole_number<int>(nullptr, {0, int64_t{1} << 31}), std::logic_error);
}

TEST(NumberOptions, ShowNoMoreOfALongValueThanALineHasRoomFor) {
  const Answer answer = all_programs()[0].ask({"--steps", std::string(1000, '7')});
  EXPECT_LT(answer.text.size(), 160U) << answer.text;
  EXPECT_THAT(answer.text, HasSubstr("...; 1 to "));
}

}  // namespace
}  // namespace millrace
