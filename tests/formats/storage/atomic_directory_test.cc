#include "millrace/formats/storage/atomic_directory.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include "millrace/formats/storage/whole_file.h"
#include "tests/programs/file_faults.h"
#include "tests/support/forked_child.h"
#include "tests/support/temporary_folder.h"

namespace millrace::atomic_directory_test {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

// What is in a directory that is written whole.
void fill(const std::string& directory, const std::string& text) {
  fs::create_directory(directory + "/below");
  test::write_file(directory + "/a", text);
  test::write_file(directory + "/below/b", text);
}

void write(const std::string& path, const std::string& text) {
  AtomicDirectory directory(path);
  fill(directory.temporary_path(), text);
  directory.commit();
}

std::string content(const std::string& path) {
  const std::string text = test::read_file(path + "/a");
  return text == test::read_file(path + "/below/b") ? text : "half";
}

class AtomicDirectoryTest : public testing::Test {
 protected:
  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.path("model");
};

TEST_F(AtomicDirectoryTest, HasItsNameOnlyWhenItIsWholeAndLeavesNothingElse) {
  {
    const AtomicDirectory directory(path_);
    EXPECT_FALSE(fs::exists(path_));
  }
  EXPECT_THAT(names_in(folder_.path()), ElementsAre());
  for (const char* text : {"old", "new"}) {
    write(path_, text);
    EXPECT_EQ(content(path_), text);
  }
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("model"));
}

TEST_F(AtomicDirectoryTest, ThatOfALiveProcessStays) {
  const test::ForkedChild child([&] {
    auto* const directory = new AtomicDirectory(path_);  // never destroyed
    fill(directory->temporary_path(), "of the other");
  });
  const std::vector<std::string> held = names_in(folder_.path());
  ASSERT_EQ(held.size(), 1U);
  write(path_, "of this");
  remove_unfinished_directories(folder_.path(), "mod");
  EXPECT_EQ(content(path_), "of this");
  EXPECT_EQ(content(folder_.path(held[0])), "of the other");
}

// Whatever their numbers are, and also those that earlier versions left.
TEST_F(AtomicDirectoryTest, LeftoversOfDeadProcessesArePassedOverAndGoAtTheNextWrite) {
  const std::vector<std::string> left = {".tmp-model",     ".tmp-model.0",     ".tmp-model.1", ".tmp-model.17",
                                         ".removed-model", ".removed-model.0", ".tmp-model.2"};
  const std::vector<std::string> of_others = {".tmp-model-b.0", ".tmp-model.x", ".tmp-other"};
  for (const auto& names : {left, of_others}) {
    for (const std::string& name : names) {
      fs::create_directory(folder_.path(name));
      fill(folder_.path(name), "half");
    }
  }
  write(path_, "whole");
  EXPECT_EQ(content(path_), "whole");
  EXPECT_THAT(names_in(folder_.path()), ElementsAre(".tmp-model-b.0", ".tmp-model.x", ".tmp-other", "model"));
}

TEST_F(AtomicDirectoryTest, KilledAtAnyFileCallItIsOldOrNewAndTheNextProcessGoesOn) {
  int kills = 0;
  bool had_old = false;
  bool had_new = false;
  for (bool ended = false; !ended; ++kills) {
    ASSERT_LT(kills, 100);
    SCOPED_TRACE(kills);
    write(path_, "old");
    {
      test::ForkedChild child([&] {
        test::arm_file_fault(test::FileFault::kKill, kills + 1);
        write(path_, "new");
        remove_directory(folder_.path("gone"));
      });
      ended = child.did_it();
    }
    const std::string now = content(path_);
    EXPECT_TRUE(now == "old" || now == "new") << now;
    had_old = had_old || now == "old";
    had_new = had_new || now == "new";
    write(path_, "next");
    EXPECT_EQ(content(path_), "next");
    EXPECT_THAT(names_in(folder_.path()), ElementsAre("model"));
  }
  EXPECT_GT(kills, 10);
  EXPECT_TRUE(had_old && had_new);
}

TEST_F(AtomicDirectoryTest, ARemovalThatIsKilledIsGoneOnWith) {
  int kills = 0;
  for (bool ended = false; !ended; ++kills) {
    ASSERT_LT(kills, 100);
    write(path_, "old");
    {
      test::ForkedChild child([&] {
        test::arm_file_fault(test::FileFault::kKill, kills + 1);
        remove_directory(path_);
      });
      ended = child.did_it();
    }
    EXPECT_THAT(content(path_), testing::AnyOf("old", ""));
    remove_directory(path_);
    remove_unfinished_directories(folder_.path(), "model");
    EXPECT_THAT(names_in(folder_.path()), ElementsAre());
  }
  // In front of the rename and of the removal of each file at least, and once at its end.
  EXPECT_GT(kills, 3);
}

TEST_F(AtomicDirectoryTest, WithoutLocksItGoesOnAndLeavesAloneWhatMayBeOfALiveProcess) {
  fs::create_directory(folder_.path(".tmp-model.0"));
  {
    test::ForkedChild child([&] {
      test::replace_flock([](int, int) {
        errno = ENOLCK;
        return -1;
      });
      for (const char* text : {"old", "new"}) write(path_, text);
    });
    EXPECT_TRUE(child.did_it());
  }
  EXPECT_EQ(content(path_), "new");
  EXPECT_THAT(names_in(folder_.path()), ElementsAre(".tmp-model.0", "model"));
}

TEST_F(AtomicDirectoryTest, OneThatIsTakenForALeftoverBeforeItIsLockedIsMadeAgain) {
  test::ForkedChild child([&] {
    // Another process is quicker, twice: before the lock is asked for, and with it.
    test::replace_flock([this, times = 0](int file, int operation) mutable {
      const std::string name = folder_.path(".tmp-model." + std::to_string(times));
      if (times++ == 0) fs::remove(name);
      if (times == 2) {
        errno = EWOULDBLOCK;
        return -1;
      }
      return test::real_flock(file, operation);
    });
    write(path_, "whole");
  });
  EXPECT_TRUE(child.did_it());
  EXPECT_EQ(content(path_), "whole");
}

TEST_F(AtomicDirectoryTest, ManyProcessesWriteOneName) {
  constexpr int kWrites = 30;
  std::vector<pid_t> children;
  for (int child = 0; child < 6; ++child) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      try {
        for (int i = 0; i < kWrites; ++i) write(path_, std::string(100, static_cast<char>('a' + child)));
        ::_exit(0);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        ::_exit(1);
      }
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(content(path_).size(), 100U);
  write(path_, "whole");
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("model"));
}

TEST_F(AtomicDirectoryTest, MayHaveANameAsLongAsNamesMayBe) {
  const std::string name(255, 'n');
  for (const char* text : {"old", "new"}) write(folder_.path(name), text);
  EXPECT_EQ(content(folder_.path(name)), "new");
  remove_directory(folder_.path(name));
  EXPECT_THAT(names_in(folder_.path()), ElementsAre());
}

}  // namespace
}  // namespace millrace::atomic_directory_test
