#include "tests/support/child_process.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <system_error>

#include <gtest/gtest.h>
#include <unistd.h>

namespace millrace::test::child_process_test {
namespace {

std::vector<std::string> shell(const std::string& script) { return {"/bin/sh", "-c", script}; }

TEST(ChildProcess, GivesBothOutputsAndTheExitCode) {
  // Each output is larger than a pipe, and one comes wholly before the other.
  const ChildResult result = run_child(
      shell("i=0; while [ $i -lt 5000 ]; do echo 0123456789012345678 >&2; i=$((i+1)); done; seq 1 30000; exit 7"));
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.err.size(), 100000U);
  EXPECT_EQ(result.out.substr(0, 6), "1\n2\n3\n");
  EXPECT_EQ(result.out.substr(result.out.size() - 6), "30000\n");
}

TEST(ChildProcess, ReadsLinesWhileItRuns) {
  ChildProcess child(shell("echo first; echo; sleep 1000 & wait"));
  EXPECT_EQ(child.read_line(), "first");
  EXPECT_EQ(child.read_line(), "");
  EXPECT_TRUE(child.running());
  child.signal(SIGTERM);
  EXPECT_EQ(child.read_line(), std::nullopt);
  EXPECT_EQ(child.wait().signal, SIGTERM);
  EXPECT_FALSE(child.running());
}

TEST(ChildProcess, LeavesOutALineThatWasCut) {
  ChildProcess child(shell("printf 'whole\\ncut'"));
  EXPECT_EQ(child.read_line(), "whole");
  EXPECT_EQ(child.read_line(), std::nullopt);
  EXPECT_EQ(child.wait().out, "whole\ncut");
}

TEST(ChildProcess, GetsTheEnvironmentOfTheTestAndItsOwn) {
  ::setenv("MILLRACE_TEST_A", "outer", 1);
  ::setenv("MILLRACE_TEST_B", "outer", 1);
  const ChildResult result =
      run_child(shell("echo $MILLRACE_TEST_A $MILLRACE_TEST_B"), {.environment = {"MILLRACE_TEST_B=inner"}});
  EXPECT_EQ(result.out, "outer inner\n");
}

TEST(ChildProcess, CannotLetAFileGrowBeyondTheLimit) {
  const std::string path = testing::TempDir() + "millrace_child_limit_" + std::to_string(::getpid());
  const ChildResult result = run_child({"/bin/dd", "if=/dev/zero", "of=" + path, "bs=1000", "count=3"},
                                       {.environment = {"LC_ALL=C"}, .most_file_bytes = 1500});
  std::remove(path.c_str());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("File too large"), std::string::npos) << result.err;
}

TEST(ChildProcess, SaysWhatItWaitedForWhenTheTimeIsOver) {
  ChildProcess child(shell("echo reason >&2; echo ready; sleep 1000"));
  EXPECT_EQ(child.read_line(), "ready");
  EXPECT_THROW(child.read_line(std::chrono::milliseconds(100)), std::runtime_error);
  try {
    child.wait(std::chrono::milliseconds(100));
    FAIL() << "it does not end";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "/bin/sh did not give its end within 100 ms; on standard error: reason\n");
  }
}

// As one that is watched for long while it prints more than a pipe holds.
TEST(ChildProcess, GoesOnWhileItsOutputIsTaken) {
  ChildProcess child(shell("seq 1 30000; seq 1 30000 >&2"));
  for (int look = 0; look < 60'000 && child.running(); ++look) {
    child.take_output();
    ::usleep(1000);
  }
  EXPECT_FALSE(child.running());
  EXPECT_EQ(child.wait().out.size(), 168'894U);
}

TEST(ChildProcess, TellsWhenAProgramCannotBeStarted) {
  EXPECT_THROW(run_child({"/no/such/program"}), std::system_error);
}

}  // namespace
}  // namespace millrace::test::child_process_test
