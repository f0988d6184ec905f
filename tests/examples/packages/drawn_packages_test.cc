#include "examples/packages/drawn_packages.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "tests/support/packed.h"
#include "tests/support/temporary_folder.h"

namespace millrace::drawn_packages_test {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::string paragraph(const std::string& name, const std::string& section, const std::string& text) {
  return fmt::format("Package: {}\nSource: {}-source\nSection: {}\nDescription: {}\n {} of {}\n\n", name, name, section,
                     text, text, name);
}

// 6 packages of `utils`, 4 of `libs`, one of `games`; a text that comes twice, and one that is nothing but its name.
class DrawnPackagesOf : public testing::Test {
 protected:
  DrawnPackagesOf() {
    std::string list;
    for (int i = 0; i < 6; ++i) list += paragraph(fmt::format("tool{}", i), "utils", fmt::format("utility {}", i));
    for (int i = 0; i < 4; ++i) list += paragraph(fmt::format("lib{}", i), "libs", fmt::format("library {}", i));
    list += paragraph("game", "games", "a Game");
    list += paragraph("tool9", "libs", "utility 0");
    list += "Package: nothing\nSource: nothing\nSection: utils\nDescription: Nothing\n\n";
    test::write_file(path(), list);
  }

  std::string path() const { return folder_.path("packages.txt"); }

  DrawnPackages draw(DrawnPackagesOptions options) {
    options.path = path();
    return drawn_packages(options);
  }

  static std::string names(const DrawnPackages& drawn) {
    std::string names;
    for (const PackageText& package : drawn.packages) names += package.name + " ";
    return names;
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(DrawnPackagesOf, GroupsThoseOfASourceAndThoseWithADescription) {
  const auto package = [](const std::string& name, const std::string& source, const std::string& description) {
    return fmt::format("Package: {0}\nSource: {1}\nSection: libs\nDescription: synopsis of number {2}\n {3}\n\n", name,
                       source, name.size(), description);
  };
  test::write_file(path(), package("a", "one", "first text") + package("bb", "two", "second text") +
                               package("ccc", "three", "third text") + package("dddd", "two", "third text") +
                               package("eeeee", "four", "first text") + package("ffffff", "five", "fifth text"));
  std::map<std::string, std::string> groups;
  for (const PackageText& text : draw({.sections = {"libs"}}).packages) groups[text.name] = text.group;
  EXPECT_THAT(groups, ElementsAre(Pair("a", "one"), Pair("bb", "two"), Pair("ccc", "two"), Pair("dddd", "two"),
                                  Pair("eeeee", "one"), Pair("ffffff", "five")));
}

TEST_F(DrawnPackagesOf, TakesTheMostFrequentSectionsAndCountsWhatItLeavesOut) {
  const DrawnPackages drawn = draw({.num_sections = 2, .packages_per_section = 5});
  EXPECT_THAT(drawn.sections, ElementsAre("utils", "libs"));
  EXPECT_THAT(drawn.left_out, ElementsAre(Pair("of other sections", 1), Pair("more than are wanted of a section", 1),
                                          Pair("with the text of another package", 1),
                                          Pair("without synopsis or description, but for the name", 1)));
  ASSERT_EQ(drawn.packages.size(), 9U);
  const auto lib3 = std::ranges::find(drawn.packages, "lib3", &PackageText::name);
  ASSERT_NE(lib3, drawn.packages.end());
  EXPECT_EQ(lib3->source, "lib3-source");
  EXPECT_EQ(lib3->synopsis, "library 3");
  EXPECT_EQ(lib3->description, "library 3 of");
}

TEST_F(DrawnPackagesOf, DrawsByTheSeed) {
  std::set<std::string> draws;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const DrawnPackagesOptions options{.sections = {"utils"}, .packages_per_section = 3, .seed = seed};
    draws.insert(names(draw(options)));
    EXPECT_EQ(names(draw(options)), names(draw(options)));
  }
  EXPECT_GT(draws.size(), 3U);
}

// A shuffle of a tenth of them must see each section in about its share.
TEST_F(DrawnPackagesOf, MixesTheSections) {
  std::string list;
  for (int i = 0; i < 400; ++i) {
    list += paragraph(fmt::format("package{:03}", i), i < 200 ? "utils" : "libs", fmt::format("number {}", i));
  }
  test::write_file(path(), list);
  const DrawnPackages drawn = draw({});
  ASSERT_EQ(drawn.packages.size(), 400U);
  for (size_t first = 0; first < 400; first += 40) {
    const auto tenth = std::span(drawn.packages).subspan(first, 40);
    EXPECT_NEAR(static_cast<double>(std::ranges::count(tenth, "utils", &PackageText::section)), 20, 12) << first;
  }
  EXPECT_NE(names(drawn), names(draw({.seed = 43})));
}

TEST_F(DrawnPackagesOf, RefusesASectionThatNoPackageIsIn) {
  EXPECT_THAT(
      [&] {
        draw({.sections = {"utils", "kitchen"}});
      },
      testing::ThrowsMessage<ErrorException>(testing::HasSubstr("of section 'kitchen'")));
}

TEST_F(DrawnPackagesOf, TakesAPackedListAndRefusesBytesThatAreNotUtf8) {
  test::write_file(path(), test::packed(test::read_file(path()), Compression::kGzip));
  EXPECT_EQ(draw({.sections = {"libs"}}).packages.size(), 4U);
  test::write_file(path(), "Package: \xe9\n");
  EXPECT_THAT([&] { draw({}); },
              testing::ThrowsMessage<ErrorException>("parse: " + path() + ": not UTF-8 at byte 9 (0xe9)"));
}

TEST(WithoutName, LeavesTheNameOutWhereItIsAWord) {
  EXPECT_EQ(without_name("Foo is a tool; foo-data has data for FOO.", "foo"), "is a tool; foo-data has data for .");
  EXPECT_EQ(without_name("libfoo and (foo)", "foo"), "libfoo and ()");
  EXPECT_EQ(without_name("foo", "foo"), "");
  EXPECT_EQ(without_name("made with g++ 12", "g++"), "made with 12");
}

}  // namespace
}  // namespace millrace::drawn_packages_test
