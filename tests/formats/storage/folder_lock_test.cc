#include "millrace/formats/storage/folder_lock.h"

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "tests/programs/file_faults.h"
#include "tests/support/forked_child.h"
#include "tests/support/temporary_folder.h"

namespace millrace::folder_lock_test {
namespace {

namespace fs = std::filesystem;

class FolderLockTest : public testing::Test {
 protected:
  FolderLockTest() { fs::create_directory(path_); }
  ~FolderLockTest() override { test::replace_flock({}); }
  // Does this before the first lock that is asked for.
  static void before_first_lock(const std::function<void()>& work) {
    test::replace_flock([work, first = true](int file, int operation) mutable {
      if (std::exchange(first, false)) work();
      return test::real_flock(file, operation);
    });
  }
  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.path("locked");
};

TEST_F(FolderLockTest, IsNobodyElsesUntilItGoesWithItsProcess) {
  test::ForkedChild child([&] { (void)FolderLock::try_lock(path_).release(); });
  ASSERT_TRUE(child.did_it());
  EXPECT_EQ(FolderLock::try_lock(path_), nullptr);
  EXPECT_THROW((FolderLock{path_, "writing to"}), ErrorException);
  child.kill();
  EXPECT_NE(FolderLock::try_lock(path_), nullptr);
}

TEST_F(FolderLockTest, IsOfTheFolderThatHasTheNameThoughItWasReplacedMeanwhile) {
  before_first_lock([&] {
    fs::rename(path_, folder_.path("away"));
    fs::create_directory(path_);
  });
  const std::unique_ptr<FolderLock> lock = FolderLock::try_lock(path_);
  ASSERT_NE(lock, nullptr);
  EXPECT_EQ(FolderLock::try_lock(path_), nullptr) << "the folder that has the name now";
  EXPECT_NE(FolderLock::try_lock(folder_.path("away")), nullptr);
}

TEST_F(FolderLockTest, IsNotRefusedForALockOfAFolderThatLostTheName) {
  std::unique_ptr<FolderLock> of_the_old;
  before_first_lock([&] {
    of_the_old = FolderLock::try_lock(path_);
    fs::rename(path_, folder_.path("away"));
    fs::create_directory(path_);
  });
  EXPECT_NE(FolderLock::try_lock(path_), nullptr);
}

TEST_F(FolderLockTest, AFolderThatWasRemovedMeanwhileIsNotBelievedLocked) {
  before_first_lock([&] { fs::remove(path_); });
  EXPECT_THROW((void)FolderLock::try_lock(path_), ErrorException);
}

TEST_F(FolderLockTest, WhatIsWrittenToAFolderThatWasReplacedIsAnError) {
  const std::unique_ptr<FolderLock> lock = FolderLock::try_lock(path_);
  EXPECT_NO_THROW(lock->sync());
  fs::rename(path_, folder_.path("away"));
  fs::create_directory(path_);
  try {
    lock->sync();
    ADD_FAILURE() << "nothing thrown";
  } catch (const ErrorException& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("replaced by another one, while it was written"));
    EXPECT_THAT(error.what(), testing::HasSubstr(path_));
  }
}

TEST_F(FolderLockTest, AFileSystemThatCannotSyncFoldersIsNoError) {
  // No folder of these can be synced.
  FolderLock lock("/proc/self/fdinfo", "writing");
  EXPECT_NO_THROW(lock.sync());
}

TEST_F(FolderLockTest, EverybodyHasItWhereThereAreNoLocks) {
  test::replace_flock([](int, int) {
    errno = ENOLCK;
    return -1;
  });
  const std::unique_ptr<FolderLock> lock = FolderLock::try_lock(path_);
  EXPECT_NE(lock, nullptr);
  EXPECT_NE(FolderLock::try_lock(path_), nullptr);
}

}  // namespace
}  // namespace millrace::folder_lock_test
