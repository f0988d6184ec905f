#include "tests/served_programs/searched_runs.h"

#include <csignal>
#include <filesystem>
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

TEST(SearchedRuns, FindWhatOneThatIsKilledHasLeft) {
  test::SearchedRuns runs;
  runs.set("PLANTED", kMark);
  runs.add_mark(kMark);
  runs.set("OUT", runs.out());
  const auto killed =
      runs.run_until({"/bin/sh", "-c", "echo $PLANTED; echo $PLANTED > $OUT/a; touch $OUT/b; sleep 300"},
                     [&] { return std::filesystem::exists(runs.out("b")); });
  EXPECT_EQ(killed.signal, SIGKILL);
  EXPECT_EQ(runs.found(), fmt::format("{0} in a\n{0} in output of run 0, {1}\n", kMark,
                                      "/bin/sh -c echo $PLANTED; echo $PLANTED > $OUT/a; touch $OUT/b; sleep 300"));
}

TEST(SearchedRuns, FindWhatIsShownOfOtherPlaces) {
  test::SearchedRuns runs;
  for (const char* mark : {kMark, "planted-also", "planted-mark-that-is-longer"}) runs.add_mark(mark);
  runs.show("object a", "planted-marplanted-also");
  EXPECT_EQ(runs.found(), "planted-also in object a\n");
  runs.show("object a", "planted-mar");
  EXPECT_EQ(runs.found(), "");
  runs.show("object planted-mark-that-is-longer", "");
  EXPECT_EQ(runs.found(),
            "planted-mark in object planted-mark-that-is-longer\n"
            "planted-mark-that-is-longer in object planted-mark-that-is-longer\n");
}

TEST(SearchedRuns, RefuseMarksThatAreFoundByChance) {
  test::SearchedRuns runs;
  EXPECT_THROW(runs.add_mark("secret"), std::invalid_argument);
}

}  // namespace
}  // namespace millrace::searched_runs_test
