#include "millrace/tokenizer/training/embedded_program.h"

#include <csignal>
#include <fstream>
#include <iterator>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/tokenizer/training/message_fields.h"

namespace millrace::embedded_program_test {
namespace {

using ::testing::ThrowsMessage;

std::string executable(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The shell does what its standard input says.
ProgramResult run_shell(const std::string& script) {
  return run_embedded_program("shell", executable("/bin/sh"), script);
}

TEST(EmbeddedProgram, GivesWhatTheProgramMakesOfItsInput) {
  std::string input;
  for (int i = 0; i < 1'000'000; ++i) input += std::to_string(i);
  input += '\0';
  const ProgramResult result = run_embedded_program("cat", executable("/bin/cat"), input);
  EXPECT_TRUE(result.output == input);
  EXPECT_EQ(result.ending, "ended with status 0");
  EXPECT_EQ(run_embedded_program("cat", executable("/bin/cat"), "").output, "");
}

TEST(EmbeddedProgram, SaysHowTheProgramEnded) {
  EXPECT_EQ(run_shell("echo half; exit 3").ending, "ended with status 3");
  const ProgramResult killed = run_shell("echo half; kill -9 $$");
  EXPECT_EQ(killed.output, "half\n");
  EXPECT_EQ(killed.ending, "was ended by signal 9 (Killed)");
}

// /bin/false reads nothing: with a pipe, more than fits into it would wait or end the caller with SIGPIPE.
TEST(EmbeddedProgram, OutlivesAProgramThatDoesNotReadItsInput) {
  const ProgramResult result = run_embedded_program("false", executable("/bin/false"), std::string(1 << 20, 'x'));
  EXPECT_EQ(result.output, "");
  EXPECT_EQ(result.ending, "ended with status 1");
}

TEST(EmbeddedProgram, NeedsNoChildrenToWaitForNoInputAndNoOutput) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  const int in = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);
  const int out = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
  ::close(STDIN_FILENO);
  ::close(STDOUT_FILENO);
  const ProgramResult result = run_embedded_program("cat", executable("/bin/cat"), "bytes");
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::close(in);
  ::close(out);
  std::signal(SIGCHLD, before);
  EXPECT_EQ(result.output, "bytes");
  EXPECT_EQ(result.ending, "has ended");
}

TEST(EmbeddedProgram, BlocksNoSignalOfTheProgram) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const ProgramResult result = run_shell("kill -TERM $$; echo lives on");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(result.output, "");
  EXPECT_EQ(result.ending, "was ended by signal 15 (Terminated)");
}

TEST(EmbeddedProgram, SaysThatItCannotBeStarted) {
  EXPECT_THAT([] { (void)run_embedded_program("nothing", "no program", ""); },
              ThrowsMessage<ErrorException>("io: nothing: cannot be started: Exec format error"));
}

TEST(MessageFields, AreTakenAsTheyWereAppendedAndOnlyWhole) {
  std::string message;
  for (const char* field : {"a", "", "b c"}) append_field(message, field);
  message += "cut";
  std::string_view left = message;
  EXPECT_EQ(take_field(left), "a");
  EXPECT_EQ(take_field(left), "");
  EXPECT_EQ(take_field(left), "b c");
  EXPECT_EQ(take_field(left), std::nullopt);
}

}  // namespace
}  // namespace millrace::embedded_program_test
