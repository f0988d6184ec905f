#include "millrace/formats/storage/whole_file.h"

#include <filesystem>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "millrace/formats/error.h"
#include "tests/support/temporary_folder.h"

namespace millrace::whole_file_test {
namespace {

using ::testing::ThrowsMessage;

TEST(WholeFile, HasEveryByteOfFilesAndPipes) {
  const test::TemporaryFolder folder;
  std::string content;
  for (int i = 0; i < 100000; ++i) content += static_cast<char>(i * 7);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{65536}, content.size()}) {
    test::write_file(folder.path("file"), content.substr(0, size));
    EXPECT_EQ(read_whole_file(folder.path("file")), content.substr(0, size)) << size;
  }
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  std::thread writer([&] { test::write_file(folder.path("pipe"), content); });
  const std::string found = read_whole_file(folder.path("pipe"));
  writer.join();
  EXPECT_EQ(found, content);
}

TEST(WholeFile, NoMemoryIsTakenForAFileThatIsNoText) {
  const test::TemporaryFolder folder;
  test::write_file(folder.path("sparse"), "{");
  std::filesystem::resize_file(folder.path("sparse"), uint64_t{1} << 40);
  EXPECT_THAT([&] { (void)read_whole_file(folder.path("sparse"), "tokenizer"); },
              ThrowsMessage<ErrorException>("io: cannot read the tokenizer: it has more than 1073741824 bytes (file " +
                                            folder.path("sparse") + ")"));
}

TEST(WholeFile, ErrorsSayWhatCouldNotBeReadAndWhy) {
  const test::TemporaryFolder folder;
  EXPECT_THAT([&] { (void)read_whole_file(folder.path("none"), "state"); },
              ThrowsMessage<ErrorException>("io: cannot read the state: No such file or directory (file " +
                                            folder.path("none") + ")"));
  EXPECT_THAT([&] { (void)read_whole_file(folder.path()); },
              ThrowsMessage<ErrorException>("io: cannot read the file: Is a directory (file " + folder.path() + ")"));
}

}  // namespace
}  // namespace millrace::whole_file_test
