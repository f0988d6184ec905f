#include "tests/served_programs/searched_runs.h"

#include <stdexcept>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::searched_runs_test {
namespace {

using testing::HasSubstr;

constexpr const char* kMark = "planted-mark";

// What a search finds after one run of a shell's command.
std::string found_after(const std::string& command) {
  test::SearchedRuns runs;
  runs.set("PLANTED", kMark);
  runs.add_mark(kMark);
  runs.add_mark("never-there");
  runs.set("OUT", runs.out());
  EXPECT_EQ(runs.run({"/bin/sh", "-c", command}).exit_code, 0);
  return runs.found();
}

TEST(SearchedRuns, FindAMarkWhereverARunLeavesIt) {
  EXPECT_THAT(found_after("echo a $PLANTED"), HasSubstr("planted-mark in output of run 0"));
  EXPECT_THAT(found_after("printf 'a%sb' $PLANTED >&2"), HasSubstr("planted-mark in errors of run 0"));
  EXPECT_THAT(found_after("mkdir -p $OUT/a/b && cd $OUT/a/b && printf 'x\\0%s\\n' $PLANTED > c"),
              HasSubstr("planted-mark in a/b/c"));
  EXPECT_THAT(found_after("cd $OUT && touch x$PLANTED"), HasSubstr("planted-mark in xplanted-mark"));
  EXPECT_EQ(found_after("echo $PLANTED | tail -c 9; echo planted_mark > $OUT/a"), "");
}

TEST(SearchedRuns, RefuseMarksThatAreFoundByChance) {
  test::SearchedRuns runs;
  EXPECT_THROW(runs.add_mark("secret"), std::invalid_argument);
}

}  // namespace
}  // namespace millrace::searched_runs_test
