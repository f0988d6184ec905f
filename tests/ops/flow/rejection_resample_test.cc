#include "millrace/ops/flow/rejection_resample.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/ops/features/arithmetic.h"
#include "millrace/ops/features/map.h"
#include "millrace/ops/flow/repeat.h"
#include "millrace/ops/sources/range.h"
#include "tests/support/operator_chain.h"

namespace millrace::rejection_resample_test {
namespace {

using test::Chain;
using test::FaultyRange;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Elements of which a tenth has class 2, three tenths class 1, the others class 0, in no regular order.
int64_t class_of(int64_t x) {
  const uint64_t tenth = CounterRng(1, 2).bits(static_cast<uint64_t>(x)) % 10;
  return tenth < 1 ? 2 : tenth < 4 ? 1 : 0;
}

Chain classes(int64_t count) {
  return Chain::source<RangeOperator>(0, count, 1, "x")
      .then<MapRowsOperator>(RowFunction{.name = "class",
                                         .writes = {{.name = "class", .dtype = DType::kInt32, .shape = {}}},
                                         .function = [](const RowView& row, RowWriter& out) {
                                           out.set("class", static_cast<int32_t>(class_of(row.value<int64_t>("x"))));
                                         }});
}

RejectionResampleOptions options_of(std::vector<double> target, std::vector<double> initial = {}, uint64_t seed = 3) {
  return {.feature = "class",
          .target_distribution = std::move(target),
          .initial_distribution = std::move(initial),
          .seed = seed};
}

std::array<double, 3> counts_of(const std::vector<std::string>& elements) {
  std::array<double, 3> counts{};
  for (const std::string& element : elements) ++counts[static_cast<size_t>(element.back() - '0')];
  return counts;
}

// The normal deviate of a binomial count.
double deviation(double count, double trials, double p) {
  return (count - trials * p) / std::sqrt(trials * p * (1 - p));
}

constexpr int64_t kElements = 30000;
// A right implementation fails a comparison with p = 7e-6; the seeds are fixed.
constexpr double kBound = 4.5;

TEST(RejectionResampleTest, ClassesComeOutAsOftenAsAskedFor) {
  const Chain input = classes(kElements);
  const std::array<double, 3> before = counts_of(input.run().elements);
  const std::vector<double> initial{0.6, 0.3, 0.1};
  for (const std::vector<double>& target : {std::vector<double>{1, 1, 1}, {0.2, 0, 0.3}, {0.6, 0.3, 0.1}, {0, 0, 1}}) {
    const double sum = target[0] + target[1] + target[2];
    double most = 0;
    for (size_t c = 0; c < 3; ++c) most = std::max(most, target[c] / initial[c]);
    const auto stayed = counts_of(input.then<RejectionResampleOperator>(options_of(target, initial)).run().elements);
    const double all = stayed[0] + stayed[1] + stayed[2];
    for (size_t c = 0; c < 3; ++c) {
      const double chance_to_stay = target[c] / initial[c] / most;
      if (chance_to_stay == 0 || chance_to_stay > 1 - 1e-12) {
        EXPECT_EQ(stayed[c], chance_to_stay == 0 ? 0 : before[c]) << c;
        continue;
      }
      EXPECT_LT(std::abs(deviation(stayed[c], before[c], chance_to_stay)), kBound) << c;
      EXPECT_LT(std::abs(deviation(stayed[c], all, target[c] / sum)), kBound) << c;
    }
  }
}

TEST(RejectionResampleTest, WithoutAnInitialDistributionItIsFoundOnTheWay) {
  const std::vector<std::string> stayed =
      classes(kElements).then<RejectionResampleOperator>(options_of({1, 1, 1})).run().elements;
  const auto all = counts_of(stayed);
  // A tenth of the elements is of the rarest class, and stays.
  EXPECT_NEAR(static_cast<double>(stayed.size()), 0.3 * kElements, 0.02 * kElements);
  const std::vector<std::string> later(stayed.begin() + 1000, stayed.end());
  const auto counts = counts_of(later);
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_LT(std::abs(deviation(counts[c], static_cast<double>(later.size()), 1.0 / 3)), kBound) << c;
    EXPECT_GT(all[c], 0) << c;
  }
}

// The definition, one element after the other.
TEST(RejectionResampleTest, EachElementStaysByItsNumberAndTheCountsSoFar) {
  const std::vector<double> target{0.5, 0.25, 0.25};
  for (const Iteration iteration : {Iteration{0, 0}, Iteration{2, 9}}) {
    const CounterRng rng(3, operator_id("rejection_resample"), iteration);
    std::array<double, 3> counts{10, 10, 10};
    std::vector<std::string> expected;
    for (int64_t x = 0; x < 400; ++x) {
      const auto c = static_cast<size_t>(class_of(x));
      ++counts[c];
      double most = 0;
      for (size_t i = 0; i < 3; ++i) most = std::max(most, target[i] / counts[i]);
      if (rng.words(static_cast<uint64_t>(x))[0] >= chance(target[c] / counts[c] / most)) continue;
      expected.push_back(fmt::format("x={} class={}", x, c));
    }
    const Chain resampled = classes(400).then<RejectionResampleOperator>(options_of(target));
    for (uint64_t jitter = 0; jitter < 4; ++jitter)
      EXPECT_EQ(resampled.run(jitter, SIZE_MAX, iteration).elements, expected);
  }
}

TEST(RejectionResampleTest, SeedsEpochsAndOthersOfItsKindDrawOtherElements) {
  const auto with = [](uint64_t seed, uint64_t occurrence, int64_t epoch) {
    const Chain resampled =
        classes(500).then<RejectionResampleOperator>(options_of({1, 1, 1}, {0.6, 0.3, 0.1}, seed), occurrence);
    return resampled.run(0, SIZE_MAX, {.epoch = epoch, .path = 0}).elements;
  };
  const auto first = with(1, 0, 0);
  EXPECT_EQ(with(1, 0, 0), first);
  EXPECT_NE(with(2, 0, 0), first);
  EXPECT_NE(with(1, 1, 0), first);
  EXPECT_NE(with(1, 0, 1), first);
}

TEST(RejectionResampleTest, ClassesThatAreNoneAndErrorsStayAndNotesCountNothing) {
  const RejectionResampleOptions options{.feature = "x", .target_distribution = {1, 0}, .initial_distribution = {1, 1}};
  EXPECT_THAT(
      Chain::source<FaultyRange>(4, std::vector<int64_t>{0}).then<RejectionResampleOperator>(options).elements(),
      ElementsAre("error: parse: at 0",
                  "error: out_of_range: rejection_resample: feature 'x' is 2, and there are classes from 0 to 1",
                  "error: out_of_range: rejection_resample: feature 'x' is 3, and there are classes from 0 to 1"));
  // Two classes of odd and even numbers: a note in the place of number 0 leaves the draws of the others as they are
  // when there is one element less.
  const auto parity = [](const Chain& input) {
    return input.then<ArithmeticOperator>("x", Arithmetic::kModulo, int64_t{2})
        .then<RejectionResampleOperator>(
            RejectionResampleOptions{.feature = "x", .target_distribution = {1, 1}, .initial_distribution = {1, 3}})
        .elements();
  };
  const auto noted = parity(Chain::source<FaultyRange>(200, std::vector<int64_t>{}, std::vector<int64_t>{0}));
  const auto shorter = parity(Chain::source<RangeOperator>(1, 200, 1, "x"));
  const auto failed = parity(Chain::source<FaultyRange>(200, std::vector<int64_t>{0}));
  EXPECT_THAT(noted.front(), StartsWith("error"));
  EXPECT_EQ(std::vector<std::string>(noted.begin() + 1, noted.end()), shorter);
  EXPECT_NE(std::vector<std::string>(failed.begin() + 1, failed.end()), shorter);
}

TEST(RejectionResampleTest, EachEpochCountsAnewAndNothingOfNothingIsNothing) {
  EXPECT_THAT(classes(0).then<RejectionResampleOperator>(options_of({1, 1, 1})).elements(), IsEmpty());
  const Chain never = classes(3000).then<RejectionResampleOperator>(
      RejectionResampleOptions{.feature = "class", .target_distribution = {0, 0, 0, 1}});
  EXPECT_THAT(never.elements(), IsEmpty());
  const Chain twice = classes(60).then<RejectionResampleOperator>(options_of({1, 1, 1})).then<RepeatOperator>(2);
  const Chain once = classes(60).then<RejectionResampleOperator>(options_of({1, 1, 1}));
  std::vector<std::string> expected = once.run().elements;
  for (const std::string& element : once.run(0, SIZE_MAX, {.epoch = 1, .path = 0}).elements)
    expected.push_back(element);
  EXPECT_EQ(twice.elements(), expected);
  EXPECT_EQ(once.cardinality(), Cardinality::unknown());
}

TEST(RejectionResampleTest, BadOptionsAreRefused) {
  const auto why = [](const RejectionResampleOptions& options) -> std::string {
    try {
      (void)classes(1).then<RejectionResampleOperator>(options);
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(why(options_of({1, 1})), "accepted");
  EXPECT_THAT(why(options_of({})), HasSubstr("there are 0 classes"));
  EXPECT_THAT(why(options_of({0, 0})), HasSubstr("the target distribution has the sum 0"));
  EXPECT_THAT(why(options_of({1, -1})), HasSubstr("the target distribution has -1"));
  EXPECT_THAT(why(options_of({1, NAN})), HasSubstr("the target distribution has nan"));
  EXPECT_THAT(why(options_of({1, 1}, {1})), HasSubstr("2 classes in the target distribution, 1 in the initial one"));
  EXPECT_THAT(why(options_of({1, 1}, {1, 0})), HasSubstr("class 1 is wanted with 1, and comes never"));
  EXPECT_EQ(why(options_of({1, 0}, {1, 0})), "accepted");
  EXPECT_THAT(why({.feature = "y", .target_distribution = {1}}), HasSubstr("'y'"));
}

}  // namespace
}  // namespace millrace::rejection_resample_test
