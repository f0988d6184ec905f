#include "millrace/ops/combine/sample_from_datasets.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/flow/repeat.h"
#include "millrace/ops/flow/take.h"
#include "millrace/ops/sources/range.h"
#include "tests/support/operator_chain.h"

namespace millrace::sample_from_datasets_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Chain range(int64_t start, int64_t stop) { return Chain::source<RangeOperator>(start, stop, 1, "x"); }
Chain sample(const std::vector<Chain>& inputs, const SampleOptions& options) {
  return Chain::join<SampleFromDatasetsOperator>(inputs, options);
}

// The thousands of each value: the input that it came from.
std::string sources(const std::vector<std::string>& elements) {
  std::string text;
  for (const std::string& element : elements) text += static_cast<char>('a' + std::stoll(element.substr(2)) / 1000);
  return text;
}

TEST(SampleFromDatasetsTest, DrawsAreAPureFunctionOfSeedEpochAndNumber) {
  const std::vector<Chain> inputs{range(0, 1000), range(1000, 2000)};
  const SampleOptions options{.weights = {3, 1}, .seed = 7};
  const Chain sampled = sample(inputs, options).then<TakeOperator>(24);
  EXPECT_EQ(sources(sampled.elements()), "aabbabaaabaaaabaaaaaaaaa");
  const std::vector<std::string> epochs = sampled.then<RepeatOperator>(2).elements();
  const std::string both = sources(epochs);
  EXPECT_EQ(both.substr(0, 24), sources(sampled.elements()));
  EXPECT_NE(both.substr(24), both.substr(0, 24));
  SampleOptions same = options;
  same.rerandomize_each_iteration = false;
  const std::string alike = sources(sample(inputs, same).then<TakeOperator>(24).then<RepeatOperator>(2).elements());
  EXPECT_EQ(alike.substr(24), alike.substr(0, 24));
}

TEST(SampleFromDatasetsTest, DrawsAsOftenAsTheWeightsSay) {
  constexpr double kCount = 20000;
  const Chain endless = range(0, 10).then<RepeatOperator>(-1);
  const std::vector<Chain> inputs{endless, range(1000, 1010).then<RepeatOperator>(-1),
                                  range(2000, 2010).then<RepeatOperator>(-1)};
  const Chain sampled =
      sample(inputs, {.weights = {0.5, 2, 7.5}, .seed = 1}).then<TakeOperator>(static_cast<int64_t>(kCount));
  const std::string text = sources(sampled.run().elements);
  for (const auto& [source, share] : {std::pair('a', 0.05), {'b', 0.2}, {'c', 0.75}}) {
    const auto found = static_cast<double>(std::count(text.begin(), text.end(), source));
    EXPECT_NEAR(found, share * kCount, 4 * std::sqrt(kCount * share * (1 - share))) << source;
  }
}

TEST(SampleFromDatasetsTest, WithoutWeightsAllAreEqual) {
  const std::vector<Chain> inputs{range(0, 900), range(1000, 1900)};
  EXPECT_EQ(sample(inputs, {.seed = 4}).elements(), sample(inputs, {.weights = {1, 1}, .seed = 4}).elements());
}

TEST(SampleFromDatasetsTest, AnInputThatHasEndedLeavesTheOthersTheirShares) {
  constexpr double kCount = 6000;
  const std::vector<Chain> inputs{range(0, 3), range(1000, 1010).then<RepeatOperator>(-1),
                                  range(2000, 2010).then<RepeatOperator>(-1)};
  const Chain sampled =
      sample(inputs, {.weights = {8, 1, 1}, .seed = 5}).then<TakeOperator>(static_cast<int64_t>(kCount));
  const std::string text = sources(sampled.run().elements);
  EXPECT_EQ(std::count(text.begin(), text.end(), 'a'), 3);
  EXPECT_NEAR(static_cast<double>(std::count(text.begin(), text.end(), 'b')), kCount / 2, 4 * std::sqrt(kCount / 4));
}

TEST(SampleFromDatasetsTest, GivesEveryElementOrStopsAtTheFirstInputThatIsFoundEmpty) {
  const std::vector<Chain> inputs{range(0, 5), range(1000, 1040)};
  EXPECT_EQ(sample(inputs, {.seed = 2}).elements().size(), 45u);
  const std::vector<std::string> stopped = sample(inputs, {.seed = 2, .stop_on_empty = true}).elements();
  const std::string text = sources(stopped);
  EXPECT_EQ(std::count(text.begin(), text.end(), 'a'), 5);
  EXPECT_LT(stopped.size(), 30u);
}

TEST(SampleFromDatasetsTest, AnInputWithoutWeightIsNeverOpened) {
  class Unopened final : public StageOperator {
   public:
    Unopened() : StageOperator(RangeOperator(0, 1, 1, "x").schema()) {}
    std::string_view name() const override { return "unopened"; }
    Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::infinite(); }
    std::unique_ptr<Stage> open(std::vector<OpenStage>, const StageContext&) const override {
      throw ErrorException(ErrorCode::kIo, "opened");
    }
  };
  const Chain sampled = sample({Chain::source<Unopened>(), range(3, 5)}, {.weights = {0, 1}});
  EXPECT_THAT(sampled.elements(), ElementsAre("x=3", "x=4"));
  EXPECT_EQ(sampled.cardinality().to_string(), "2");
}

TEST(SampleFromDatasetsTest, ErrorsUseUpADrawAndNotesDoNot) {
  const Chain input = Chain::source<FaultyRange>(5, std::vector<int64_t>{1}, std::vector<int64_t>{2});
  EXPECT_THAT(sample({input, range(0, 9)}, {.weights = {1, 0}}).elements(),
              ElementsAre("x=0", HasSubstr("at 1"), HasSubstr("note at 2"), "x=3", "x=4"));
}

TEST(SampleFromDatasetsTest, RefusesWeightsThatCannotBe) {
  const auto error_of = [](const std::vector<double>& weights) {
    try {
      sample({range(0, 1), range(1, 2)}, {.weights = weights});
    } catch (const ErrorException& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(error_of({1, 2}), "none");
  EXPECT_EQ(error_of({1}), "invalid_argument: sample_from_datasets: 2 inputs need as many weights: weights are [1]");
  EXPECT_THAT(error_of({1, -1}), HasSubstr("finite and at least 0: weights are [1, -1]"));
  EXPECT_THAT(error_of({1, std::nan("")}), HasSubstr("finite and at least 0"));
  EXPECT_THAT(error_of({0, 0}), HasSubstr("no input has a weight above 0"));
  const double largest = std::numeric_limits<double>::max();
  EXPECT_THAT(error_of({largest, largest}), HasSubstr("the sum of the weights must be finite"));
}

}  // namespace
}  // namespace millrace::sample_from_datasets_test
