#include "millrace/formats/storage/atomic_file.h"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/whole_file.h"
#include "tests/programs/file_faults.h"
#include "tests/support/forked_child.h"
#include "tests/support/temporary_folder.h"

namespace millrace::atomic_file_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsSupersetOf;

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

TEST(AtomicFile, HasItsNameOnlyWhenItIsWholeAndLeavesNothingElse) {
  const test::TemporaryFolder folder;
  {
    AtomicFile file(folder.path("a"));
    file.write("text");
    EXPECT_FALSE(fs::exists(folder.path("a")));
    file.commit();
  }
  EXPECT_EQ(read_whole_file(folder.path("a")), "text");
  { AtomicFile given_up(folder.path("b")); }
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a"));
}

// As in a container, whose processes have the same number each time.
TEST(AtomicFile, GoesOnAfterAKilledProcessOfTheSameNumberThatHadTheSameNames) {
  const test::TemporaryFolder folder;
  // The folder is known by now, and so are the numbers that come next.
  int next = 0;
  {
    const AtomicFile other(folder.path("other"));
    const std::string name = *names_in(folder.path()).begin();
    next = std::stoi(name.substr(name.rfind('-') + 1)) + 1;
  }
  for (int number = next; number < next + 100; ++number) {
    test::write_file(folder.path(fmt::format("a.tmp-{}-{}", ::getpid(), number)), "half");
  }
  for (int i = 0; i < 3; ++i) write_atomically(folder.path("a"), "whole");
  EXPECT_EQ(read_whole_file(folder.path("a")), "whole");
}

TEST(AtomicFile, RemovesWhatAKilledProcessHasLeft) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("state");
  test::ForkedChild child([&] {
    auto* const file = new AtomicFile(path);  // never destroyed
    file->write("half");
  });
  ASSERT_EQ(names_in(folder.path()).size(), 1U);
  child.kill();
  const std::string leftover = *names_in(folder.path()).begin();
  EXPECT_THAT(leftover, testing::StartsWith(fmt::format("state.tmp-")));
  // What others have called so is theirs.
  const std::set<std::string> of_others = {"state.tmp-notes", "state.tmp-20240101",   "state.tmp-2024-01-01",
                                           "state.tmp-",      "state.tmp-1-",         "state.tmp--1",
                                           "tmp-1-1",         "another.state.tmp-1-1"};
  for (const std::string& name : of_others) test::write_file(folder.path(name), "");
  test::write_file(folder.path("another.tmp-1-1"), "");
  std::set<std::string> expected = of_others;
  expected.insert({"state", "another.tmp-1-1"});
  write_atomically(path, "whole");
  EXPECT_EQ(names_in(folder.path()), expected);
  EXPECT_EQ(read_whole_file(path), "whole");
  write_atomically(folder.path("another"), "whole");
  expected.erase("another.tmp-1-1");
  expected.insert("another");
  EXPECT_EQ(names_in(folder.path()), expected);
}

TEST(AtomicFile, LeavesTheFileOfALiveProcessAlone) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("state");
  const test::ForkedChild child([&] {
    auto* const file = new AtomicFile(path);
    file->write("of the other");
  });
  const std::set<std::string> held = names_in(folder.path());
  ASSERT_EQ(held.size(), 1U);
  write_atomically(path, "of this");
  EXPECT_THAT(names_in(folder.path()), IsSupersetOf(held));
  EXPECT_EQ(read_whole_file(path), "of this");
}

TEST(AtomicFile, OneThatIsTakenForALeftoverBeforeItIsLockedIsMadeAgain) {
  const test::TemporaryFolder folder;
  test::ForkedChild child([&] {
    // Another process is quicker, twice: it has removed the file before the lock is asked for, and then it has the
    // lock.
    test::replace_flock([&folder, times = 0](int file, int operation) mutable {
      if (++times == 1) fs::remove(folder.path(*names_in(folder.path()).begin()));
      if (times == 2) {
        errno = EWOULDBLOCK;
        return -1;
      }
      return test::real_flock(file, operation);
    });
    write_atomically(folder.path("a"), "whole");
  });
  EXPECT_TRUE(child.did_it());
  EXPECT_EQ(read_whole_file(folder.path("a")), "whole");
  EXPECT_EQ(names_in(folder.path()).size(), 2U) << "the file that another one has locked is its own";
}

TEST(AtomicFile, ManyProcessesWriteOneFile) {
  const test::TemporaryFolder folder;
  std::vector<pid_t> children;
  for (int child = 0; child < 8; ++child) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      try {
        for (int i = 0; i < 50; ++i)
          write_atomically(folder.path("a"), std::string(10'000, static_cast<char>('a' + child)));
        ::_exit(0);
      } catch (const std::exception&) {
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
  const std::string content = read_whole_file(folder.path("a"));
  EXPECT_EQ(content, std::string(10'000, content.at(0)));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("a"));
}

TEST(AtomicFile, MayHaveANameAsLongAsNamesMayBe) {
  const test::TemporaryFolder folder;
  const std::string name(255, 'n');
  write_atomically(folder.path(name), "whole");
  EXPECT_EQ(read_whole_file(folder.path(name)), "whole");
  EXPECT_THAT(names_in(folder.path()), ElementsAre(name));
  try {
    write_atomically(folder.path(name + "n"), "whole");
    ADD_FAILURE() << "nothing thrown";
  } catch (const ErrorException& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("File name too long"));
  }
  EXPECT_THAT(names_in(folder.path()), ElementsAre(name)) << "nothing is left of it";
}

}  // namespace
}  // namespace millrace::atomic_file_test
