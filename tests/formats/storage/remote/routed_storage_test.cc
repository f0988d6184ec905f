#include "millrace/formats/storage/remote/routed_storage.h"

#include <atomic>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "tests/formats/storage/remote/fetch.h"
#include "tests/formats/storage/remote/object_server.h"
#include "tests/formats/storage/remote/s3_client.h"
#include "tests/support/process_variables.h"
#include "tests/support/temporary_folder.h"

namespace millrace::routed_storage_test {
namespace {

using test::content_of;
using test::ObjectServer;
using test::ServedFault;

TEST(RoutedStorage, ReadsWholeFilesWhereverTheyAre) {
  ObjectServer server;
  const test::TemporaryFolder folder;
  for (const size_t bytes : {0, 10, 200'000}) {
    const std::string content = content_of(bytes);
    const std::string name = std::to_string(bytes);
    server.put(name, content);
    std::ofstream(folder.path(name), std::ios::binary) << content;
    for (const std::string& path : {server.url(name), folder.path(name)}) {
      EXPECT_EQ(read_whole_anywhere(path), content);
      EXPECT_EQ(find_whole_anywhere(path), content);
      EXPECT_TRUE(exists_anywhere(path));
    }
  }
  EXPECT_EQ(known_size(folder.path("200000")), 200'000U);
  EXPECT_FALSE(known_size(server.url("200000"))) << "nobody is asked";
  for (const std::string& path : {server.url("b"), folder.path("b")}) {
    EXPECT_FALSE(find_whole_anywhere(path));
    EXPECT_FALSE(exists_anywhere(path));
    EXPECT_FALSE(known_size(path));
    EXPECT_THROW((void)read_whole_anywhere(path), ErrorException);
  }
}

// As the tokenizer that is saved with a model after hours of training.
TEST(RoutedStorage, GoesOnWithWhatItHasRead) {
  std::atomic<bool> refuses = false;
  ObjectServer server({.fault = [&](const auto&) {
    return ServedFault{.kind = refuses ? ServedFault::Kind::kStatus : ServedFault::Kind::kNone, .status = 403};
  }});
  server.put("a", "before");
  EXPECT_EQ(read_whole_anywhere(server.url("a")), "before");
  EXPECT_FALSE(find_whole_anywhere(server.url("b")));
  server.put("a", "after");
  server.put("b", "after");
  EXPECT_EQ(find_whole_anywhere(server.url("a")), "before");
  refuses = true;
  EXPECT_EQ(read_whole_anywhere(server.url("a")), "before");
  EXPECT_FALSE(find_whole_anywhere(server.url("b")));
}

// That is not the same as a file that is not there.
TEST(RoutedStorage, SaysWhereAStoreDoesNotSay) {
  ObjectServer server(
      {.fault = [](const auto&) { return ServedFault{.kind = ServedFault::Kind::kStatus, .status = 403}; }});
  const std::string url = server.url("a");
  EXPECT_THROW((void)exists_anywhere(url), ErrorException);
  EXPECT_THROW((void)find_whole_anywhere(url), ErrorException);
}

TEST(RoutedStorage, WritesWholeFilesWhereverTheyAre) {
  ObjectServer server({.s3 = test::marked_service()});
  server.put("bucket/other", "");
  const test::TemporaryFolder folder;
  const test::ProcessVariables variables(test::aws_variables(server));
  static int runs = 0;  // what was read is known as long as the process lives
  const std::string name = "written" + std::to_string(++runs);
  for (const std::string& path : {"s3://bucket/" + name, folder.path(name)}) {
    EXPECT_FALSE(find_whole_anywhere(path));
    write_anywhere(path, "first");
    EXPECT_EQ(find_whole_anywhere(path), "first") << "and not that there is none";
    const auto file = open_output_anywhere(path);
    EXPECT_EQ(file->path(), path);
    file->write("sec");
    file->write("ond");
    EXPECT_EQ(read_whole_anywhere(path), "first");
    file->commit();
    EXPECT_EQ(read_whole_anywhere(path), "second");
    EXPECT_EQ(known_size(path).value_or(6), 6U);
  }
  EXPECT_EQ(server.content("bucket/" + name), "second");
}

TEST(RoutedStorage, RefusesWhatCannotBeWritten) {
  EXPECT_THROW((void)open_output_anywhere("https://host/a"), ErrorException);
  EXPECT_THROW((void)open_output_anywhere("s3://bucket"), ErrorException);
  EXPECT_THROW((void)open_output_anywhere("/no/such/folder/a"), ErrorException);
  const test::TemporaryFolder folder;
  EXPECT_THROW((void)open_output_anywhere(folder.path("a"), {.if_absent = true}), ErrorException);
  EXPECT_THROW((void)open_output_anywhere(folder.path("")), ErrorException);
}

TEST(RoutedStorage, JoinsFolderAndName) {
  EXPECT_EQ(path_in("s3://bucket/set", "a"), "s3://bucket/set/a");
  EXPECT_EQ(path_in("s3://bucket/set/", "a"), "s3://bucket/set/a");
  EXPECT_EQ(path_in("folder", "a"), "folder/a");
  EXPECT_EQ(path_in("/", "a"), "/a");
}

}  // namespace
}  // namespace millrace::routed_storage_test
