#include "millrace/formats/storage/local.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <glob.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/atomic_directory.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/growing_file.h"
#include "tests/support/temporary_folder.h"

namespace millrace::local_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Opened final : OpenSink {
  void open_done(OpenResult answer) noexcept override {
    result = std::move(answer);
    ++num_answers;
  }
  OpenResult result;
  int num_answers = 0;
};

struct Read final : ReadSink {
  void read_done(ReadResult answer) noexcept override {
    result = std::move(answer);
    ++num_answers;
  }
  ReadResult result;
  int num_answers = 0;
};

// Keeps functions until the test runs them.
class HoldingExecutor final : public IoExecutor {
 public:
  void submit(std::function<void()> function) override { functions_.push_back(std::move(function)); }
  void run_all() {
    for (auto& function : std::exchange(functions_, {})) function();
  }

 private:
  std::vector<std::function<void()>> functions_;
};

class LocalStorageTest : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  std::shared_ptr<Opened> open(const std::string& path) {
    auto opened = std::make_shared<Opened>();
    storage_.open(path, opened);
    return opened;
  }
  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  InlineExecutor executor_;
  LocalStorage storage_{executor_};
};

TEST_F(LocalStorageTest, ReadsRangesAndStopsAtTheEnd) {
  const std::string path = write("a", "0123456789");
  const std::shared_ptr<File> file = open(path)->result.file;
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->size(), 10U);
  std::string room(100, '.');
  const auto read = [&](uint64_t offset, size_t size) {
    auto sink = std::make_shared<Read>();
    file->read(offset, std::as_writable_bytes(std::span(room).first(size)), sink);
    EXPECT_EQ(sink->num_answers, 1);
    EXPECT_TRUE(sink->result.ok);
    return room.substr(0, sink->result.bytes);
  };
  EXPECT_EQ(read(3, 4), "3456");
  EXPECT_EQ(read(8, 100), "89");
  EXPECT_EQ(read(10, 100), "");
  EXPECT_EQ(read(1000, 100), "");
}

TEST_F(LocalStorageTest, FilesThatCannotSayWhetherTheyWouldBlockAreReadByTheExecutor) {
  // /proc knows neither RWF_NOWAIT nor sizes; what counts is that the executor is asked and answers.
  const auto opened = open("/proc/self/status");
  ASSERT_NE(opened->result.file, nullptr);
  std::string room(6, '.');
  auto sink = std::make_shared<Read>();
  opened->result.file->read(0, std::as_writable_bytes(std::span(room)), sink);
  ASSERT_EQ(sink->num_answers, 1);
  EXPECT_TRUE(sink->result.ok);
  EXPECT_EQ(room, "Name:\t");
}

TEST_F(LocalStorageTest, VersionChangesWithTheContent) {
  const std::string path = write("a", "one");
  const std::string first = open(path)->result.file->version();
  EXPECT_EQ(open(path)->result.file->version(), first);
  write("a", "four");
  EXPECT_NE(open(path)->result.file->version(), first);
}

TEST_F(LocalStorageTest, WhatCannotBeOpenedIsAnErrorThatNamesThePath) {
  ::mkfifo((folder_ / "pipe").c_str(), 0600);
  for (const auto& [path, what] :
       std::vector<std::pair<std::string, std::string>>{{(folder_ / "none").string(), "No such file"},
                                                        {folder_.string(), "not a regular file"},
                                                        {(folder_ / "pipe").string(), "not a regular file"}}) {
    const auto opened = open(path);
    ASSERT_EQ(opened->num_answers, 1);
    EXPECT_EQ(opened->result.file, nullptr);
    EXPECT_EQ(opened->result.error.error.code, ErrorCode::kIo);
    EXPECT_EQ(opened->result.error.error.shard, path);
    EXPECT_THAT(opened->result.error.error.message, HasSubstr(what));
    EXPECT_FALSE(opened->result.error.retriable);
  }
}

TEST_F(LocalStorageTest, TooManyOpenFilesAreAnErrorThatSaysHowManyThereMayBe) {
  const std::string path = write("a", "0123456789");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 3, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto opened = open(path);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(opened->result.file, nullptr);
  EXPECT_FALSE(opened->result.error.not_found);
  EXPECT_THAT(opened->result.error.error.message, HasSubstr("this process may have 3 (ulimit -n)"));
}

TEST_F(LocalStorageTest, ReadInFlightSurvivesWhoeverAskedForIt) {
  const std::string path = write("a", "0123456789");
  HoldingExecutor executor;
  std::string room(8, '.');
  auto sink = std::make_shared<Read>();
  {
    LocalStorage storage(executor);
    auto opened = std::make_shared<Opened>();
    storage.open(path, opened);
    executor.run_all();  // nothing when the name was cached
    ASSERT_NE(opened->result.file, nullptr);
    opened->result.file->read(2, std::as_writable_bytes(std::span(room)), sink);
  }
  executor.run_all();
  ASSERT_EQ(sink->num_answers, 1);
  EXPECT_EQ(room.substr(0, sink->result.bytes), "23456789");
}

TEST_F(LocalStorageTest, GlobIsSortedAndMarksFolders) {
  write("b-10", "");
  write("b-9", "");
  write("a", "");
  fs::create_directory(folder_ / "b-folder");
  EXPECT_THAT(storage_.glob((folder_ / "b*").string()),
              ElementsAre((folder_ / "b-10").string(), (folder_ / "b-9").string(), (folder_ / "b-folder/").string()));
  EXPECT_THAT(storage_.glob((folder_ / "[x-z]*").string()), IsEmpty());
  EXPECT_THAT(storage_.glob((folder_ / "none" / "*").string()), IsEmpty());
}

TEST_F(LocalStorageTest, APatternThatIsTheNameOfAFileIsThatFile) {
  for (const char* name : {"a*", "aa", "d[1]", "d1", "back\\slash?"}) test::write_file((folder_ / name).string(), "x");
  const auto names = [&](const char* pattern) { return storage_.glob((folder_ / pattern).string()); };
  EXPECT_THAT(names("a*"), ElementsAre((folder_ / "a*").string()));
  EXPECT_THAT(names("a?"), ElementsAre((folder_ / "a*").string(), (folder_ / "aa").string()));
  EXPECT_THAT(names("d[1]"), ElementsAre((folder_ / "d[1]").string()));
  EXPECT_THAT(names("d[0-9]"), ElementsAre((folder_ / "d1").string()));
  EXPECT_THAT(names("back\\slash?"), ElementsAre((folder_ / "back\\slash?").string()));
  fs::create_directory(folder_ / "e[1]");
  test::write_file((folder_ / "e[1]" / "x.tfrecord").string(), "x");
  EXPECT_THAT(names("e[1]/x.tfrecord"), ElementsAre((folder_ / "e[1]" / "x.tfrecord").string()));
  EXPECT_THAT(names("e[1]"), IsEmpty()) << "a folder";
  test::write_file((folder_ / "e1").string(), "x");
  EXPECT_THAT(names("e[1]"), ElementsAre((folder_ / "e1").string())) << "what a pattern of that name finds";
}

TEST_F(LocalStorageTest, APatternFindsWhatTheOneOfTheCLibraryFinds) {
  const fs::path in = folder_ / "in";  // patterns find what lies beside it, too
  fs::create_directory(in);
  for (const char* folder : {"train", "test", ".hidden", "tr*in"}) {
    fs::create_directory(in / folder);
    for (const char* name : {"0.x", "1.x", ".2.x", "3.y", "[4].x"})
      write((fs::path("in") / folder / name).string(), "x");
  }
  fs::create_directory(in / "train" / "5.x");
  fs::create_symlink("nowhere", in / "train" / "6.x");
  fs::create_symlink("train", in / "link");
  for (const char* pattern :
       {"*/*.x",       "t*/[0-3].?",  "train//*.x", "train/*",   "*/3.y",    ".*/*",         "*/.*",
        "tr\\*in/*.x", "tr[*]in/0.x", "[!t]*/*",    "*/\\[4].x", "train/[0", "none/*",       "*/none",
        "*/",          "train/0.x/*", "train/",     "train/*/",  "*in",      "./*/../*/0.x", "*[/]0.x"}) {
    const std::string all = (in / pattern).string();
    glob_t found{};
    ::glob(all.c_str(), GLOB_MARK, nullptr, &found);
    std::vector<std::string> files(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
    std::sort(files.begin(), files.end());
    EXPECT_EQ(storage_.glob(all), files) << pattern;
  }
}

TEST_F(LocalStorageTest, FolderThatMayNotBeReadIsAnErrorOfGlob) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every folder";
  fs::create_directory(folder_ / "closed");
  fs::permissions(folder_ / "closed", fs::perms::none);
  EXPECT_THROW((void)storage_.glob((folder_ / "closed" / "*").string()), ErrorException);
}

// Else there would be a folder `s3:` here, and the bucket would lack what was written.
TEST(LocalWriters, RefuseUrls) {
  const std::string url = "s3://bucket/run/file";
  const std::vector<std::function<void()>> writers = {[&] { make_folder(url); }, [&] { AtomicDirectory none(url); },
                                                      [&] { AtomicFile none(url); }, [&] { GrowingFile none(url); }};
  for (const auto& write : writers) {
    try {
      write();
      ADD_FAILURE() << "no error";
    } catch (const ErrorException& exception) {
      EXPECT_EQ(exception.error().code, ErrorCode::kInvalidArgument);
      EXPECT_EQ(exception.error().shard, url);
      EXPECT_THAT(exception.what(), HasSubstr("only local files are written here"));
    }
  }
  EXPECT_FALSE(fs::exists("s3:"));
  EXPECT_THROW(make_folder("file:///tmp/run"), ErrorException);
}

}  // namespace
}  // namespace millrace::local_test
