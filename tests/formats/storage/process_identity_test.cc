#include "millrace/formats/storage/process_identity.h"

#include <csignal>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace millrace::process_identity_test {
namespace {

TEST(ProcessIdentity, KnowsWhetherAProcessOfThisMachineHasEnded) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(ends[1]);
    char byte;
    [[maybe_unused]] const auto read = ::read(ends[0], &byte, 1);  // until it is killed
    ::_exit(0);
  }
  ::close(ends[0]);
  ProcessIdentity identity = ProcessIdentity::own();
  EXPECT_EQ(identity.process, ::getpid());
  EXPECT_EQ(identity.has_ended(), false);

  ProcessIdentity other = identity;
  other.process = child;
  EXPECT_EQ(other.has_ended(), true) << "it is one that began later";
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(other.has_ended(), true) << "whoever has killed it has not asked for it yet";
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(other.has_ended(), true);
  ::close(ends[1]);
}

// Numbers and host names repeat in containers.
TEST(ProcessIdentity, DoesNotKnowOthers) {
  ProcessIdentity identity = ProcessIdentity::own();
  ASSERT_NE(identity.machine, "");
  identity.machine += "1";
  EXPECT_EQ(identity.has_ended(), std::nullopt);
  EXPECT_EQ(ProcessIdentity{}.has_ended(), std::nullopt);
}

}  // namespace
}  // namespace millrace::process_identity_test
