#include "millrace/formats/storage/file_lock.h"

#include <cerrno>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/programs/file_faults.h"
#include "tests/support/forked_child.h"
#include "tests/support/temporary_folder.h"

namespace millrace::file_lock_test {
namespace {

class FileLockTest : public testing::Test {
 protected:
  FileLockTest() { test::write_file(path_, "text"); }
  ~FileLockTest() override { test::replace_flock({}); }
  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.path("file");
};

TEST_F(FileLockTest, ManyShareItAndNobodyElseHasItAlone) {
  EXPECT_NE(FileLock::try_alone(path_), nullptr);
  const auto one = FileLock::share(path_);
  const auto other = FileLock::share(path_);
  EXPECT_NE(one, nullptr);
  EXPECT_NE(other, nullptr);
  EXPECT_EQ(FileLock::try_alone(path_), nullptr);
  EXPECT_EQ(FileLock::share(folder_.path("none")), nullptr);
  EXPECT_NE(FileLock::try_alone(folder_.path("none")), nullptr);
}

TEST_F(FileLockTest, OneThatWasRemovedWhileItWasWaitedForIsNone) {
  test::replace_flock([this](int file, int operation) {
    std::filesystem::remove(path_);
    return test::real_flock(file, operation);
  });
  EXPECT_EQ(FileLock::share(path_), nullptr);
}

// NFS makes such a lock one of the bytes of a file, which takes the right to write.
TEST_F(FileLockTest, OneWhoReadsIsSeenWhereLocksTakeTheRightThatTheyAreFor) {
  test::replace_flock([](int file, int operation) {
    const bool writes = (::fcntl(file, F_GETFL) & O_ACCMODE) != O_RDONLY;
    if ((operation & LOCK_EX) == 0 || writes) return test::real_flock(file, operation);
    errno = EBADF;
    return -1;
  });
  const auto reader = FileLock::share(path_);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(FileLock::try_alone(path_), nullptr);
}

TEST_F(FileLockTest, AFileThatMayOnlyBeReadCanBeHadAlone) {
  ::chmod(path_.c_str(), 0444);
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
  test::ForkedChild child([&] {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) ::_exit(1);
    if (FileLock::try_alone(path_) == nullptr) ::_exit(2);
    const auto reader = FileLock::share(path_);
    if (reader == nullptr || FileLock::try_alone(path_) != nullptr) ::_exit(3);
  });
  EXPECT_TRUE(child.did_it());
}

}  // namespace
}  // namespace millrace::file_lock_test
