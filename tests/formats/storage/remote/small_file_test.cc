#include "millrace/formats/storage/remote/small_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "millrace/formats/error.h"
#include "tests/support/temporary_folder.h"

namespace millrace::small_file_test {
namespace {

std::string refusal(const std::string& path) {
  try {
    static_cast<void>(read_small_file(path, 10));
  } catch (const ErrorException& exception) {
    EXPECT_EQ(exception.error().code, ErrorCode::kIo);
    return exception.error().message;
  }
  return "none";
}

TEST(SmallFile, GivesTheBytesOrSaysThatThereIsNone) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("a");
  test::write_file(path, std::string("0123\n\0789", 9));
  EXPECT_EQ(read_small_file(path, 10), std::string("0123\n\0789", 9));
  test::write_file(path, "");
  EXPECT_EQ(read_small_file(path, 10), "");
  EXPECT_EQ(read_small_file(folder.path("none"), 10), std::nullopt);
  EXPECT_EQ(read_small_file(path + "/below", 10), std::nullopt);
}

TEST(SmallFile, RefusesInOneLine) {
  const test::TemporaryFolder folder;
  test::write_file(folder.path("ten"), "0123456789");
  EXPECT_EQ(read_small_file(folder.path("ten"), 10), "0123456789");
  test::write_file(folder.path("long"), "0123456789a");
  EXPECT_EQ(refusal(folder.path("long")), "cannot read " + folder.path("long") + ": it has more than 10 bytes");
  EXPECT_EQ(refusal(folder.path()), "cannot read " + folder.path() + ": Is a directory");
  // Nobody writes into it: whoever opened it would wait for ever.
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal(folder.path("pipe")), "cannot read " + folder.path("pipe") + ": it is no regular file");
}

}  // namespace
}  // namespace millrace::small_file_test
