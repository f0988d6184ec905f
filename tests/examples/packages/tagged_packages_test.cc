#include "examples/packages/tagged_packages.h"

#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "tests/support/packed.h"
#include "tests/support/temporary_folder.h"

namespace millrace::tagged_packages_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::ThrowsMessage;

Package package_of(const std::string& name, const std::string& source, const std::vector<std::string>& tags,
                   const std::vector<std::string>& paragraphs) {
  return {.name = name,
          .source = source,
          .section = "misc",
          .tags = tags,
          .synopsis = "a thing: " + name,
          .paragraphs = paragraphs};
}

// 30 packages of 10 sources that can be rows, one without tags and one with a single paragraph.
std::vector<Package> many() {
  std::vector<Package> packages = {package_of("untagged", "u", {}, {"one", "two"}),
                                   package_of("short", "s", {"use::x"}, {"the only one"})};
  for (int i = 0; i < 30; ++i) {
    packages.push_back(package_of(fmt::format("p{}", i), fmt::format("source{}", i / 3), {"role::program"},
                                  {fmt::format("what {} is", i), fmt::format("more of {}", i)}));
  }
  return packages;
}

std::vector<std::string> names_of(const std::vector<Package>& packages) {
  std::vector<std::string> names;
  for (const Package& package : packages) names.push_back(package.name);
  return names;
}

TEST(TaggedPackages, CountsTagsAmongThosePackagesAloneThatCanBeRows) {
  const std::vector<Package> packages = {
      package_of("a", "a", {"z", "b"}, {"1", "2"}), package_of("b", "b", {"z", "a"}, {"1", "2"}),
      package_of("c", "c", {"c"}, {"1", "2"}), package_of("d", "d", {"a", "b", "d", "d2"}, {"1"}),
      package_of("e", "e", {}, {"1", "2"})};
  const TaggedPackages chosen = choose_tagged_packages(packages, {.tags = 4});
  EXPECT_THAT(chosen.tags, ElementsAre("z", "a", "b", "c"));
  EXPECT_THAT(names_of(chosen.rows), ElementsAre("a", "b", "c"));
  EXPECT_EQ(chosen.untagged, 1);
  EXPECT_EQ(chosen.without_second_paragraph, 1);
  EXPECT_EQ(chosen.not_drawn, 0);
}

TEST(TaggedPackages, DrawsRowsBySeedInTheOrderOfTheList) {
  const TaggedPackages first = choose_tagged_packages(many(), {.rows = 8, .tags = 1, .seed = 1});
  EXPECT_EQ(first.rows.size(), 8U);
  EXPECT_EQ(first.not_drawn, 22);
  EXPECT_EQ(names_of(first.rows), names_of(choose_tagged_packages(many(), {.rows = 8, .tags = 1, .seed = 1}).rows));
  EXPECT_NE(names_of(first.rows), names_of(choose_tagged_packages(many(), {.rows = 8, .tags = 1, .seed = 2}).rows));
  const std::vector<std::string> all = names_of(many());
  auto place = all.begin();
  for (const std::string& name : names_of(first.rows)) {
    place = std::find(place, all.end(), name);
    EXPECT_NE(place, all.end()) << name;
  }
}

TEST(TaggedPackages, KeepsSourcesOfRowsOutOfTestRowsAndOtherTexts) {
  const TaggedPackages chosen = choose_tagged_packages(many(), {.rows = 3, .test_rows = 4, .tags = 1, .seed = 5});
  ASSERT_EQ(chosen.test.size(), 4U);
  EXPECT_EQ(chosen.not_drawn, 23);
  std::set<std::string> sources;
  for (const Package& row : chosen.rows) sources.insert(row.source);
  for (const Package& row : chosen.test) EXPECT_FALSE(sources.contains(row.source)) << row.name;
  for (const Package& row : chosen.test) sources.insert(row.source);
  std::vector<std::string> expected = {"a thing: untagged", "one", "two", "a thing: short", "the only one"};
  for (const Package& package : many()) {
    if (package.name[0] != 'p' || sources.contains(package.source)) continue;
    expected.push_back(package.synopsis);
    expected.insert(expected.end(), package.paragraphs.begin(), package.paragraphs.end());
  }
  EXPECT_EQ(chosen.other_texts, expected);
}

TEST(TaggedPackages, KeepsBodiesAndAnswersOfRowsOutOfTestRowsAndOtherTexts) {
  std::vector<Package> packages = many();
  for (size_t i = 2; i < packages.size(); ++i) {
    if (i % 3 == 0) packages[i].paragraphs[0] = "one body";
    if (i % 3 == 1) packages[i].paragraphs = {packages[i].synopsis, "an answer", "in two parts"};
  }
  for (const uint64_t seed : {1, 2, 3, 4}) {
    const TaggedPackages chosen =
        choose_tagged_packages(packages, {.rows = 5, .test_rows = 2, .tags = 1, .seed = seed});
    std::set<std::string> texts;
    std::set<std::string> paragraphs;
    for (const Package& row : chosen.rows) {
      texts.insert({row.paragraphs[0], row.answer()});
      paragraphs.insert(row.paragraphs.begin(), row.paragraphs.end());
    }
    for (const Package& row : chosen.test) {
      EXPECT_FALSE(texts.contains(row.paragraphs[0])) << row.name;
      EXPECT_FALSE(texts.contains(row.answer())) << row.name;
    }
    for (const std::string& text : chosen.other_texts) EXPECT_FALSE(paragraphs.contains(text)) << text;
  }
}

TEST(TaggedPackages, TakesWhatThereIsAndRefusesWhatThereIsNot) {
  EXPECT_EQ(choose_tagged_packages(many(), {.rows = 100, .tags = 1}).rows.size(), 30U);
  EXPECT_THAT([] { (void)choose_tagged_packages(many(), {.tags = 2}); },
              ThrowsMessage<ErrorException>(HasSubstr("2 tags are asked for, and the packages have 1")));
  EXPECT_THAT([] { (void)choose_tagged_packages(many(), {.rows = 100, .test_rows = 1, .tags = 1}); },
              ThrowsMessage<ErrorException>(HasSubstr("1 test rows are asked for, and 0 packages share no source")));
  EXPECT_THAT(
      [] {
        (void)choose_tagged_packages({package_of("a", "a", {}, {"1", "2"})}, {.tags = 1});
      },
      ThrowsMessage<ErrorException>(HasSubstr("no package is tagged and has two paragraphs")));
}

TEST(ReadPackages, ReadsAFileAndNamesOneThatIsNotThere) {
  const test::TemporaryFolder folder;
  test::write_file(folder.path("list"), "Package: a\nSource: b\nSection: c\nDescription: d\n e\n\n");
  EXPECT_THAT(names_of(read_packages(folder.path("list"))), ElementsAre("a"));
  EXPECT_THAT([&] { (void)read_packages(folder.path("none")); },
              ThrowsMessage<ErrorException>(HasSubstr(folder.path("none"))));
  test::write_file(folder.path("cut"), "Package: a\nSource: b\n");
  EXPECT_THAT([&] { (void)read_packages(folder.path("cut")); }, ThrowsMessage<ErrorException>(HasSubstr("cut off")));
  EXPECT_THAT([&] { (void)read_packages(folder.path()); },
              ThrowsMessage<ErrorException>("io: cannot read '" + folder.path() + "': Is a directory"));
}

TEST(ReadPackages, UnpacksAFileAndRefusesBytesThatAreNotUtf8) {
  const test::TemporaryFolder folder;
  const std::string list = "Package: a\nSource: b\nSection: c\nDescription: caf\xe9\n\n";
  const std::string path = folder.path("list");
  test::write_file(path, list);
  EXPECT_THAT([&] { (void)read_packages(path); },
              ThrowsMessage<ErrorException>("parse: " + path + ": not UTF-8 at byte 48 (0xe9)"));
  test::write_file(path, test::packed(list.substr(0, 48) + "e\n\n", Compression::kGzip));
  EXPECT_THAT(names_of(read_packages(path)), ElementsAre("a"));
}

}  // namespace
}  // namespace millrace::tagged_packages_test
