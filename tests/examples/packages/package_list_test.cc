#include "examples/packages/package_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"

namespace millrace::package_list_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// What fetch.sh would write of packages that there are not.
constexpr std::string_view kList =
    "Package: kettle\n"
    "Source: kettles\n"
    "Section: utils\n"
    "Tag: role::program, use::boiling\n"
    "Description: boils water\n"
    " A kettle boils  water. It is\n"
    " driven from the command line.\n"
    " .\n"
    " Features:\n"
    "  * quick\n"
    "  * loud\n"
    "\n"
    "Package: libkettle1\n"
    "Source: kettles\n"
    "Section: libs\n"
    "Description: library for kettles\n"
    "\n";

std::function<bool(std::string&)> lines_of(std::string text) {
  return [text = std::move(text), at = size_t{0}](std::string& line) mutable {
    if (at == text.size()) return false;
    const size_t end = std::min(text.find('\n', at), text.size());
    line = text.substr(at, end - at);
    at = std::min(end + 1, text.size());
    return true;
  };
}

std::string message_of(std::string text) {
  PackageReader reader(lines_of(std::move(text)), "x.txt");
  try {
    for (Package package; reader.next(package);) continue;
  } catch (const ErrorException& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(PackageReader, GivesPackagesWithTheirParagraphs) {
  PackageReader reader(lines_of(std::string(kList)), "x.txt");
  Package package;
  ASSERT_TRUE(reader.next(package));
  EXPECT_EQ(package.name, "kettle");
  EXPECT_EQ(package.source, "kettles");
  EXPECT_EQ(package.section, "utils");
  EXPECT_THAT(package.tags, ElementsAre("role::program", "use::boiling"));
  EXPECT_EQ(package.synopsis, "boils water");
  EXPECT_THAT(package.paragraphs,
              ElementsAre("A kettle boils water. It is driven from the command line.", "Features: * quick * loud"));
  ASSERT_TRUE(reader.next(package));
  EXPECT_EQ(package.name, "libkettle1");
  EXPECT_THAT(package.tags, IsEmpty());
  EXPECT_THAT(package.paragraphs, IsEmpty());
  EXPECT_FALSE(reader.next(package));
}

TEST(PackageReader, RefusesWhatIsNoSuchListOrIsCut) {
  EXPECT_EQ(message_of(""), "parse: x.txt: there is no package in it; examples/packages/fetch.sh writes such a list");
  EXPECT_EQ(message_of("once upon a time\n"),
            "parse: x.txt: line 1: 'once upon a time' is no field of a package; examples/packages/fetch.sh writes such "
            "a list");
  EXPECT_THAT(message_of("Package: a\nVersion: 1\n"), HasSubstr("line 2: 'Version' is no field of a package"));
  EXPECT_THAT(message_of("Package: a\n goes on\n"), HasSubstr("line 2: a line that goes on with no description"));
  EXPECT_THAT(message_of("Package: a\nSection: b\n\n"), HasSubstr("line 3: the end of what is no package"));
  for (size_t size = 1; size < kList.size(); ++size) {
    const std::string message = message_of(std::string(kList.substr(0, size)));
    const bool whole = kList.substr(0, size).ends_with("\n\n");
    EXPECT_EQ(message == "nothing thrown", whole) << size << ": " << message;
  }
}

}  // namespace
}  // namespace millrace::package_list_test
