#include "millrace/command_line/given_options.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "tests/support/temporary_folder.h"

namespace millrace::given_options_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

TEST(DifferentFiles, AreNotOneByTwoPaths) {
  const test::TemporaryFolder folder;
  test::write_file(folder.path("a"), "");
  std::filesystem::create_symlink(folder.path("a"), folder.path("link"));
  require_different_files({{"in", folder.path("a")}, {"out", folder.path("b")}, {"log", ""}, {"list", ""}});
  require_different_files({{"in", "s3://bucket/a"}, {"out", "s3://bucket/b"}, {"log", "b"}});
  const auto refused = [](const std::string& in, const std::string& out) {
    EXPECT_THAT(
        [&] {
          require_different_files({{"in", in}, {"list", "/no/list"}, {"out", out}});
        },
        ThrowsMessage<ErrorException>(
            AllOf(HasSubstr("--in and --out are both " + out.substr(0, out.find('?'))), Not(HasSubstr("Signature")))));
  };
  refused(folder.path("a"), folder.path("a"));
  refused(folder.path("a"), folder.path("./a"));
  refused(folder.path("a"), folder.path("link"));
  refused("no-such-file", "./no-such-file");
  refused("s3://bucket/a", "s3://bucket/a");
  refused("https://host/a?X-Amz-Signature=1f", "https://host/a?X-Amz-Signature=1f");
}

}  // namespace
}  // namespace millrace::given_options_test
