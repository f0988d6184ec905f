#include "tests/trainer/golden/report.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::test::report_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> lines(const GoldenReport& report) {
  std::vector<std::string> lines;
  for (const GoldenGroup& group : report.groups()) lines.push_back(group.line());
  return lines;
}

TEST(GoldenReport, AGroupSaysHowCloseItsFiguresCameToTheirLimits) {
  GoldenReport report;
  report.begin_group("logits");
  report.compare("first", {1, 2}, {1, 2.25}, 0, 1);
  report.compare("second", {4}, {4.25}, 0, 0.5);
  report.compare("third", {8}, {8}, 0, 1);
  EXPECT_THAT(lines(report), ElementsAre("logits: 3 checks, largest difference 0.5 of its limit"));
}

TEST(GoldenReport, FailuresAreCountedInTheirGroup) {
  GoldenReport report;
  report.begin_group("logits");
  report.compare("first", {1}, {4}, 0, 1);
  report.compare("second", {1, 2}, {4}, 0, 1);
  report.begin_group("schedules");
  report.guard("third", [] {});
  EXPECT_THAT(lines(report), ElementsAre("logits: 2 checks, largest difference 3 of its limit, 2 failed",
                                         "schedules: 1 check, 1 failed"));
  EXPECT_EQ(report.failures().size(), 3U);
}

TEST(GoldenReport, AGroupThatIsBegunAgainGoesOn) {
  GoldenReport report;
  report.begin_group("float64");
  report.expect("first", true, "");
  report.begin_group("float32");
  report.compare("second", {1}, {1}, 0, 0);
  report.begin_group("float64");
  report.expect("third", true, "");
  EXPECT_THAT(lines(report), ElementsAre("float64: 2 checks", "float32: 1 check, largest difference 0 of its limit"));
}

TEST(GoldenReport, FiguresThatAreNoNumbersOrShouldBeTheSameAreInfinitelyFar) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  GoldenReport report;
  report.begin_group("no number");
  report.compare("first", {1, kNan}, {1, 2}, 0, 1);
  report.compare("second", {1}, {1}, 0, 1);
  report.begin_group("same");
  report.compare("third", {1}, {2}, 0, 0);
  EXPECT_THAT(lines(report), ElementsAre("no number: 2 checks, largest difference inf of its limit, 1 failed",
                                         "same: 1 check, largest difference inf of its limit, 1 failed"));
}

TEST(GoldenReport, AGroupWithoutChecksHasNoLine) {
  GoldenReport report;
  report.begin_group("logits");
  EXPECT_THAT(lines(report), IsEmpty());
  report.expect("first", true, "");
  EXPECT_THAT(lines(report), ElementsAre("logits: 1 check"));
}

TEST(GoldenReport, ChecksBeforeTheFirstGroupAreCountedToo) {
  GoldenReport report;
  report.expect("first", true, "");
  EXPECT_THAT(lines(report), ElementsAre("checks: 1 check"));
}

}  // namespace
}  // namespace millrace::test::report_test
