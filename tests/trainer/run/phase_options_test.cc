// How long a training goes on and how: what the options say, and what becomes of them once an epoch is known.
#include "millrace/trainer/run/phase_options.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/run/run_phases.h"
#include "tests/trainer/toy_models.h"

namespace millrace::phase_options_test {
namespace {

namespace po = boost::program_options;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_models::Regression;
using testing_models::thrown_by;

RunOptions parsed(const std::vector<std::string>& arguments, RunOptions options = {}) {
  po::options_description all;
  add_run_options(options, "", all, all, all);
  po::variables_map given;
  po::store(po::command_line_parser(arguments).options(all).run(), given);
  po::notify(given);
  take_run_options(options, given);
  return options;
}

std::string refused(const std::vector<std::string>& arguments, int64_t batches_per_epoch = 0) {
  return thrown_by([&] { (void)phases_of(parsed(arguments), batches_per_epoch); });
}

std::string schedule_of(const std::vector<std::string>& arguments, int64_t batches_per_epoch = 0) {
  return phases_of(parsed(arguments), batches_per_epoch).front().schedule()->describe();
}

std::vector<int64_t> steps_of_phases(const std::vector<std::string>& arguments, int64_t batches_per_epoch) {
  std::vector<int64_t> steps;
  for (const RunPhase& phase : phases_of(parsed(arguments), batches_per_epoch)) steps.push_back(phase.steps);
  return steps;
}

TEST(PhaseOptions, WithoutAnyAreAWarmUpAndALinearFallToZero) {
  EXPECT_EQ(schedule_of({}), "linear_warmup_decay(learning_rate=0.001, warmup_steps=50, total_steps=250, end_rate=0)");
  EXPECT_EQ(schedule_of({"--steps", "30"}),
            "linear_warmup_decay(learning_rate=0.001, warmup_steps=30, total_steps=30, end_rate=0)");
}

TEST(PhaseOptions, HaveOneStepOfWarmUpAtLeastForARateToStartFrom) {
  EXPECT_EQ(schedule_of({"--steps", "3", "--warmup-steps", "10%", "--learning-rate", "3e-5", "--start-rate", "1e-6"}),
            "linear_warmup_decay(learning_rate=3e-05, warmup_steps=1, total_steps=3, end_rate=0, start_rate=1e-06)");
  EXPECT_EQ(schedule_of({"--epochs", "1", "--warmup-steps", "10%", "--start-rate", "1e-6", "--decay", "cosine"}, 1),
            "cosine_warmup(initial_rate=1e-06, maximum_rate=0.001, warmup_steps=1, decay_steps=0, alpha=0)");
  EXPECT_EQ(schedule_of({"--steps", "3", "--warmup-steps", "10%"}),
            "linear_warmup_decay(learning_rate=0.001, warmup_steps=0, total_steps=3, end_rate=0)");
}

TEST(PhaseOptions, SayTheCurveOfTheLearningRate) {
  EXPECT_EQ(schedule_of({"--steps", "80", "--warmup-steps", "10%", "--learning-rate", "3e-5", "--start-rate", "1e-6",
                         "--end-rate", "3e-6", "--decay", "cosine"}),
            "cosine_warmup(initial_rate=1e-06, maximum_rate=3e-05, warmup_steps=8, decay_steps=72, alpha=0.1)");
  const auto linear = phases_of(parsed({"--steps", "20", "--warmup-steps", "4", "--learning-rate", "1", "--start-rate",
                                        "0.2", "--end-rate", "0.5"}),
                                0)
                          .front()
                          .schedule();
  EXPECT_DOUBLE_EQ(linear->learning_rate(0), 0.2);
  EXPECT_DOUBLE_EQ(linear->learning_rate(2), 0.6);
  EXPECT_DOUBLE_EQ(linear->learning_rate(4), 1);
  EXPECT_DOUBLE_EQ(linear->learning_rate(12), 0.75);
  EXPECT_DOUBLE_EQ(linear->learning_rate(20), 0.5);
}

TEST(PhaseOptions, MultiplyTheRateAtMilestones) {
  const std::vector<std::string> by_milestones = {"--decay", "milestones", "--steps", "600", "--learning-rate", "2e-4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), by_milestones.begin(), by_milestones.end());
    return more;
  };
  const auto schedule = phases_of(parsed(with({"--milestones", "200:400"})), 0).front().schedule();
  EXPECT_DOUBLE_EQ(schedule->learning_rate(0), 2e-4) << "the warm-up that is a program's default is left out";
  EXPECT_DOUBLE_EQ(schedule->learning_rate(199), 2e-4);
  EXPECT_DOUBLE_EQ(schedule->learning_rate(200), 1e-4);
  EXPECT_DOUBLE_EQ(schedule->learning_rate(400), 5e-5);
  EXPECT_DOUBLE_EQ(phases_of(parsed(with({"--milestones", "7", "--milestone-factor", "0.1"})), 0)
                       .front()
                       .schedule()
                       ->learning_rate(7),
                   2e-5);
  EXPECT_DOUBLE_EQ(phases_of(parsed({"--phase", "steps=9,learning-rate=1,decay=milestones,milestones=2:4"}), 0)
                       .front()
                       .schedule()
                       ->learning_rate(4),
                   0.25);
  for (const char* wrong : {"", "0", "4:4", "4:2", "1:", "1,2", "-1", "9000000000000000000000"}) {
    EXPECT_THAT(refused(with({"--milestones", wrong})), HasSubstr("must be whole numbers that ascend")) << wrong;
  }
  EXPECT_THAT(refused(by_milestones), HasSubstr("--decay is milestones, and --milestones are not given"));
  EXPECT_THAT(refused({"--milestones", "5"}), HasSubstr("--milestones is given, but --decay is linear"));
  EXPECT_THAT(refused({"--milestone-factor", "0.5"}), HasSubstr("--milestone-factor is given, but --decay is linear"));
  EXPECT_THAT(refused(with({"--milestones", "200:600"})), HasSubstr("--milestones has 600, and there are 600 steps"));
  for (const auto& other : std::vector<std::vector<std::string>>{{"--warmup-steps", "3"}, {"--end-rate", "1e-6"}}) {
    EXPECT_THAT(refused(with({"--milestones", "5", other[0], other[1]})),
                HasSubstr("--decay milestones has neither --warmup-steps, --start-rate nor --end-rate"));
  }
}

TEST(PhaseOptions, NameTheOptimizerWhichDecaysNeitherNormsNorBiases) {
  const Regression model;
  const auto optimizer = [&](const std::string& name) {
    return phases_of(parsed({"--optimizer", name, "--weight-decay", "0.25"}), 0)
        .front()
        .optimizer(model.layout())
        ->describe();
  };
  for (const auto& [name, begin] :
       std::vector<std::pair<std::string, std::string>>{{"adamw", "adam("}, {"radam", "radam("}, {"lamb", "lamb("}}) {
    EXPECT_THAT(optimizer(name), testing::StartsWith(begin));
    EXPECT_THAT(optimizer(name), testing::AllOf(HasSubstr("0.25"), HasSubstr("LayerNorm|layer_norm|bias")));
  }
  EXPECT_THAT(refused({"--optimizer", "sgd"}), HasSubstr("--optimizer is sgd, must be adamw, radam or lamb"));
  EXPECT_THAT(refused({"--decay", "none"}), HasSubstr("--decay is none, must be linear, cosine or milestones"));
}

TEST(PhaseOptions, EpochsAreSoManyOfTheirSteps) {
  EXPECT_THAT(steps_of_phases({"--epochs", "3"}, 7), ElementsAre(21));
  EXPECT_THAT(steps_of_phases({"--epochs", "3", "--accumulate", "2"}, 7), ElementsAre(12)) << "4 steps, the last of 1";
  EXPECT_THAT(steps_of_phases({"--epochs", "3", "--steps", "20"}, 7), ElementsAre(20));
  EXPECT_THAT(steps_of_phases({"--epochs", "3", "--steps", "22"}, 7), ElementsAre(21));
  EXPECT_THAT(refused({"--epochs", "3"}), HasSubstr("--epochs is 3, but how many batches an epoch has is not known"));
  EXPECT_THAT(refused({"--epochs", "1000000000000"}, 7), HasSubstr("that is more than 1000000000000 steps"));
  EXPECT_THAT(refused({"--epochs", "3", "--warmup-steps", "22"}, 7),
              HasSubstr("--warmup-steps is 22, must be at most the steps of --epochs 3, which are 21"));
  // What is given stands for the program's default of the other.
  const RunOptions by_epochs{.phase = {.steps = 0, .epochs = 2}};
  EXPECT_EQ(phases_of(parsed({}, by_epochs), 7).front().steps, 14);
  EXPECT_EQ(phases_of(parsed({"--steps", "30"}, by_epochs), 7).front().steps, 30);
}

TEST(PhaseOptions, PhasesHaveWhatIsGivenBesideThemWhereTheySayNothing) {
  const RunOptions options = parsed({"--weight-decay", "0.5", "--learning-rate", "0.1", "--warmup-steps", "10%",
                                     "--phase", "steps=200,learning-rate=1e-3,optimizer=radam,freeze=^a{1,2},steps=3",
                                     "--phase", "epochs=2,decay=cosine"});
  const std::vector<RunPhase> phases = phases_of(options, 40);
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(phases[0].options.freeze, "^a{1,2},steps=3") << "to the end";
  EXPECT_EQ(phases[0].options.optimizer, "radam");
  EXPECT_EQ(phases[0].options.weight_decay, 0.5);
  EXPECT_EQ(phases[1].first_step, 200);
  EXPECT_EQ(phases[1].options.freeze, "");
  EXPECT_EQ(phases[0].schedule()->describe(),
            "linear_warmup_decay(learning_rate=0.001, warmup_steps=20, total_steps=200, end_rate=0)");
  EXPECT_EQ(phases[1].schedule()->describe(),
            "cosine_warmup(initial_rate=0, maximum_rate=0.1, warmup_steps=8, decay_steps=72, alpha=0)");
}

TEST(PhaseOptions, RefuseWhatCannotBeInOneLine) {
  EXPECT_THAT(
      refused({"--warmup-steps", "many"}),
      HasSubstr("--warmup-steps is many; 0 to 1000000000000 are possible, or a share of the steps such as 10%"));
  EXPECT_THAT(refused({"--warmup-steps", "101%"}), HasSubstr("--warmup-steps is 101%; "));
  EXPECT_THAT(refused({"--warmup-steps", "251"}), HasSubstr("must be at most --steps, which is 250"));
  EXPECT_THAT(refused({"--evaluate-every", "2 epochs"}),
              HasSubstr("--evaluate-every is 2 epochs; 0 to 1000000000000 are possible, or epochs such as 2epochs"));
  EXPECT_THAT(refused({"--checkpoint-every", "0epochs"}), HasSubstr("--checkpoint-every is 0epochs; "));
  EXPECT_THAT(refused({"--start-rate", "1"}), HasSubstr("--start-rate is 1, must be at most --learning-rate"));
  EXPECT_THAT(refused({"--end-rate", "1"}), HasSubstr("--end-rate is 1, must be at most --learning-rate"));
  EXPECT_THAT(refused({"--start-rate", "1e-6", "--warmup-steps", "0"}), HasSubstr("but there is no warm-up"));
  EXPECT_THAT(refused({"--keep-best-by", "accuracy"}), HasSubstr("--keep-best-by says nothing without"));
  EXPECT_THAT(refused({"--phase", "steps=0"}), HasSubstr("--phase steps=0: --steps is 0; 1 to "));
  EXPECT_THAT(
      refused({"--phase", "seed=3"}),
      HasSubstr("--phase seed=3: no 'seed' in a phase; there are: steps, epochs, optimizer, learning-rate, "
                "start-rate, end-rate, warmup-steps, decay, milestones, milestone-factor, weight-decay, freeze"));
  EXPECT_THAT(refused({"--phase", "steps=3,learning=1"}), HasSubstr("no 'learning' in a phase; there are: steps, "));
  EXPECT_THAT(refused({"--phase", "steps=3,,decay=cosine"}), HasSubstr("'' is not NAME=VALUE"));
  EXPECT_THAT(refused({"--phase", "decay=up"}), HasSubstr("--phase decay=up: --decay is up, must be"));
  EXPECT_THAT(refused({"--phase", "steps=20", "--phase", "steps=9,warmup-steps=10"}),
              HasSubstr("phase 2: warmup-steps is 10, must be at most steps, which is 9"));
}

TEST(PhaseOptions, RefuseWhatIsGivenBesidePhasesThatHaveNoUseForIt) {
  EXPECT_THAT(refused({"--warmup-steps", "500", "--phase", "steps=200"}),
              HasSubstr("phase 1: warmup-steps is 500, must be at most steps, which is 200"));
  EXPECT_THAT(refused({"--steps", "10", "--phase", "steps=20", "--phase", "epochs=3"}),
              HasSubstr("--steps is given, but each --phase says how long it is"));
  EXPECT_THAT(refused({"--epochs", "10", "--phase", "steps=20"}), HasSubstr("--epochs is given, but each --phase"));
  EXPECT_THAT(steps_of_phases({"--steps", "60", "--phase", "steps=20", "--phase", "decay=cosine"}, 0),
              ElementsAre(20, 60));
  EXPECT_THAT(steps_of_phases({"--phase", "steps=20", "--phase", "decay=cosine"}, 0), ElementsAre(20, 250));
}

TEST(PhaseOptions, RefuseWhatCannotBeBeforeAnEpochsLengthIsKnown) {
  const auto refused_at_once = [](const std::vector<std::string>& arguments) {
    return thrown_by([&] { (void)parsed(arguments); });
  };
  EXPECT_THAT(refused_at_once({"--epochs", "2", "--start-rate", "1"}), HasSubstr("--start-rate is 1, must be at most"));
  EXPECT_THAT(refused_at_once({"--epochs", "2", "--start-rate", "1e-6", "--warmup-steps", "0"}),
              HasSubstr("but there is no warm-up"));
  EXPECT_THAT(refused_at_once({"--phase", "epochs=2", "--phase", "epochs=2,freeze=("}),
              HasSubstr("phase 2: freeze '(' is no regular expression"));
  EXPECT_THAT(refused_at_once({"--phase", "epochs=2", "--phase", "steps=9,warmup-steps=10"}),
              HasSubstr("phase 2: warmup-steps is 10, must be at most steps, which is 9"));
}

TEST(PhaseOptions, IntervalsAreStepsOrEpochs) {
  const RunOptions options = parsed({"--evaluate-every", "3epochs", "--checkpoint-every", "7"});
  EXPECT_EQ(options.evaluate_every.steps, 0);
  EXPECT_EQ(options.evaluate_every.epochs, 3);
  EXPECT_EQ(options.checkpoint_every.steps, 7);
  for (const char* text : {"0", "12", "4epochs"}) EXPECT_EQ(to_string(parse_interval("option", text)), text);
  for (const char* text : {"0", "12", "2.5%"}) EXPECT_EQ(to_string(parse_warmup("option", text)), text);
}

}  // namespace
}  // namespace millrace::phase_options_test
