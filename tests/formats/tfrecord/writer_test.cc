#include "millrace/formats/tfrecord/writer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/tfrecord/crc.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::tfrecord_writer_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class RecordWriterTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : fs::directory_iterator(folder_)) result.push_back(entry.path().filename().string());
    return result;
  }
  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(RecordWriterTest, WritesTheBytesThatTensorFlowWrites) {
  RecordWriter writer(path("one.tfrecord"));
  writer.write("");
  writer.close();
  EXPECT_EQ(slurp(path("one.tfrecord")), slurp(test::data_path("tfrecord/one_empty_record.tfrecord")));
}

TEST_F(RecordWriterTest, FinalNameAppearsOnlyAtClose) {
  RecordWriter writer(path("a.tfrecord"));
  writer.write("payload");
  writer.flush();
  ASSERT_EQ(names().size(), 1U);
  EXPECT_THAT(names()[0], HasSubstr("a.tfrecord.tmp-"));
  writer.close();
  EXPECT_THAT(names(), ElementsAre("a.tfrecord"));
  EXPECT_EQ(writer.num_records(), 1);
  EXPECT_EQ(writer.num_bytes(), 23);
  EXPECT_EQ(fs::file_size(path("a.tfrecord")), 23U);
}

TEST_F(RecordWriterTest, NameMayBeSettledWhenTheRecordsAreCounted) {
  RecordWriter writer(path("a.tfrecord"));
  writer.write("payload");
  writer.set_path(path("a-1.tfrecord"));
  EXPECT_EQ(writer.path(), path("a-1.tfrecord"));
  writer.close();
  EXPECT_THAT(names(), ElementsAre("a-1.tfrecord"));
  EXPECT_EQ(fs::file_size(path("a-1.tfrecord")), 23U);
  EXPECT_THROW(writer.set_path(path("b.tfrecord")), ErrorException);
  RecordWriter stays(path("c.tfrecord"));
  EXPECT_THROW(stays.set_path(path("other/c.tfrecord")), ErrorException);
  EXPECT_EQ(stays.path(), path("c.tfrecord")) << "what was refused changes nothing";
  stays.set_path(path("./c-0.tfrecord"));
  stays.close();
  EXPECT_THAT(names(), ElementsAre("a-1.tfrecord", "c-0.tfrecord"));
  RecordWriter log(path("log"), {.in_place = true});
  EXPECT_THROW(log.set_path(path("b")), ErrorException);
}

TEST_F(RecordWriterTest, MovedWriterGoesOnAndTheOtherIsClosed) {
  RecordWriter first(path("a.tfrecord"));
  first.write("one");
  {
    RecordWriter second(std::move(first));
    second.write("two");
    EXPECT_THROW(first.write("three"), ErrorException);
    second.close();
  }
  EXPECT_THAT(names(), ElementsAre("a.tfrecord"));
  EXPECT_EQ(fs::file_size(path("a.tfrecord")), 2U * 19);
}

TEST_F(RecordWriterTest, FailureToTakeTheFinalNameIsAnErrorAndLeavesNothing) {
  fs::create_directory(path("taken"));
  RecordWriter writer(path("taken"));
  writer.write("payload");
  try {
    writer.close();
    FAIL() << "no error";
  } catch (const ErrorException& exception) {
    EXPECT_EQ(exception.error().code, ErrorCode::kIo);
    EXPECT_THAT(exception.what(), HasSubstr(path("taken")));
  }
  EXPECT_THAT(names(), ElementsAre("taken"));
  EXPECT_THROW(writer.close(), ErrorException);
}

TEST_F(RecordWriterTest, DestructionWithoutCloseLeavesNothing) {
  {
    RecordWriter writer(path("a.tfrecord"));
    writer.write(std::string(1 << 20, 'x'));
  }
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(RecordWriterTest, InPlaceFileIsReadableAfterFlush) {
  RecordWriter writer(path("events"), {.in_place = true});
  writer.write("abc");
  EXPECT_EQ(fs::file_size(path("events")), 0U);
  writer.flush();
  EXPECT_EQ(fs::file_size(path("events")), 19U);
}

TEST_F(RecordWriterTest, SameRecordsGiveTheSameCompressedBytes) {
  for (const Compression compression : {Compression::kGzip, Compression::kZstd}) {
    for (const char* name : {"a", "b"}) {
      RecordWriter writer(path(name), {.compression = compression});
      for (int i = 0; i < 1000; ++i) writer.write(std::string(i % 50, static_cast<char>('a' + i % 7)));
      writer.close();
    }
    EXPECT_EQ(slurp(path("a")), slurp(path("b")));
    EXPECT_LT(fs::file_size(path("a")), 20000U);
  }
}

TEST_F(RecordWriterTest, MissingFolderIsOneErrorThatNamesTheFile) {
  try {
    RecordWriter writer(path("no/such/folder.tfrecord"));
    FAIL() << "no error";
  } catch (const ErrorException& exception) {
    EXPECT_EQ(exception.error().code, ErrorCode::kIo);
    EXPECT_THAT(exception.what(), HasSubstr("no/such/folder.tfrecord"));
    EXPECT_THAT(exception.what(), HasSubstr("No such file or directory"));
  }
}

TEST_F(RecordWriterTest, FullDiskIsOneErrorThatNamesTheFile) {
  try {
    RecordWriter writer("/dev/full", {.in_place = true});
    writer.write("payload");
    writer.close();
    FAIL() << "no error";
  } catch (const ErrorException& exception) {
    EXPECT_EQ(exception.error().code, ErrorCode::kIo);
    EXPECT_THAT(exception.what(), HasSubstr("No space left on device"));
    EXPECT_THAT(exception.what(), HasSubstr("/dev/full"));
  }
}

TEST_F(RecordWriterTest, FailedWriteRemovesTheTemporaryFileAndRefusesMore) {
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);  // the limit then is EFBIG, as a full disk is ENOSPC
  const rlimit tight{.rlim_cur = 100000, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &tight);
  RecordWriter writer(path("big.tfrecord"));
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) writer.write(std::string(10000, 'x'));
        writer.close();
      },
      ErrorException);
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_THROW(writer.write("more"), ErrorException);
  EXPECT_THROW(writer.close(), ErrorException);
}

TEST_F(RecordWriterTest, UnknownLevelIsRefused) {
  EXPECT_THROW(RecordWriter(path("a"), {.compression = Compression::kGzip, .level = 10}), ErrorException);
  EXPECT_THROW(RecordWriter(path("a"), {.compression = Compression::kZstd, .level = 20}), ErrorException);
  // Readers of a growing file would miss its end.
  EXPECT_THROW(RecordWriter(path("a"), {.compression = Compression::kZstd, .in_place = true}), ErrorException);
  EXPECT_THAT(names(), IsEmpty());
}

// Reads a plain file with the simplest code there is; -1 when it is damaged.
int count_records(const std::string& bytes) {
  size_t position = 0;
  int count = 0;
  while (position < bytes.size()) {
    uint64_t length = 0;
    uint32_t crc = 0;
    if (bytes.size() - position < 16) return -1;
    std::memcpy(&length, bytes.data() + position, 8);
    if (length > bytes.size() - position - 16) return -1;
    std::memcpy(&crc, bytes.data() + position + 12 + length, 4);
    if (mask_crc(crc32c_portable(std::string_view(bytes).substr(position + 12, length))) != crc) return -1;
    position += 16 + length;
    ++count;
  }
  return count;
}

TEST_F(RecordWriterTest, KilledProcessLeavesNoDamagedFileUnderAFinalName) {
  const auto has_a_shard = [&] {
    return std::ranges::any_of(names(), [](const std::string& name) { return name.ends_with(".tfrecord"); });
  };
  int files_seen = 0;
  for (int round = 0; round < 8; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      // Rewrites the same few files until it is killed.
      for (int i = 0;; ++i) {
        RecordWriter writer(path("shard-" + std::to_string(i % 3) + ".tfrecord"));
        for (int record = 0; record < 40; ++record) writer.write(std::string(20000, static_cast<char>(i)));
        writer.close();
      }
    }
    // The first of them lives until a file has its name, however long that takes it.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!has_a_shard() && std::chrono::steady_clock::now() < deadline) ::usleep(1000);
    ::usleep(20000 + 7000 * round);
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));  // it did not fail by itself
    for (const std::string& name : names()) {
      if (!name.ends_with(".tfrecord")) continue;
      ++files_seen;
      EXPECT_EQ(count_records(slurp(folder_ / name)), 40) << name;
    }
  }
  EXPECT_GT(files_seen, 0);
}

}  // namespace
}  // namespace millrace::tfrecord_writer_test
