#include "millrace/formats/storage/remote/credential_process.h"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "millrace/formats/error.h"
#include "tests/support/temporary_folder.h"

namespace millrace::credential_process_test {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr milliseconds kLong(60'000);

std::string refusal(const std::string& command, milliseconds deadline = kLong) {
  try {
    static_cast<void>(run_credential_process(command, deadline));
  } catch (const ErrorException& exception) {
    return exception.error().message;
  }
  return "none";
}

TEST(CredentialProcess, GivesWhatAShellsCommandWrites) {
  EXPECT_EQ(run_credential_process("printf '%s-%s' \"a b\" c && cat", kLong), "a b-c");
  EXPECT_EQ(run_credential_process("yes | head -c 65536", kLong).size(), 65536U);
  EXPECT_EQ(run_credential_process(":", kLong), "");
}

TEST(CredentialProcess, SaysHowItFailedAndNothingThatItSaid) {
  EXPECT_THAT(refusal("echo marked-output; echo marked-error >&2; exit 3"),
              AllOf(HasSubstr("it ended with status 3"), Not(HasSubstr("marked"))));
  EXPECT_THAT(refusal("/none/marked-program --password=marked"),
              AllOf(HasSubstr("it ended with status 127"), Not(HasSubstr("marked"))));
  EXPECT_EQ(refusal("kill -KILL $$"), "it was ended by signal 9");
  EXPECT_EQ(refusal("yes marked"), "it wrote more than 65536 bytes");
}

TEST(CredentialProcess, IsKilledWithItsChildrenAtTheDeadline) {
  const test::TemporaryFolder folder;
  // The shell waits for the one, the other holds its output.
  const std::string command = "sleep 1000 & echo $! > " + folder.path("child") + "; echo half; sleep 1000";
  EXPECT_EQ(refusal(command, milliseconds(1000)), "it was not done after 1000 ms");
  const pid_t child = std::stoi(test::read_file(folder.path("child")));
  // Whoever inherits it may take a moment until it is gone.
  for (int i = 0; i < 5000 && ::kill(child, 0) == 0; ++i) {
    if (test::read_file("/proc/" + std::to_string(child) + "/stat").find(") Z ") != std::string::npos) break;
    std::this_thread::sleep_for(milliseconds(1));
  }
  const std::string state = test::read_file("/proc/" + std::to_string(child) + "/stat");
  EXPECT_TRUE(state.empty() || state.find(") Z ") != std::string::npos) << state;
}

TEST(CredentialProcess, IsGivenUpWhenItIsAskedTo) {
  for (const char* const command : {"sleep 1000", "exec >/dev/null; sleep 1000"}) {
    std::stop_source stop;
    const std::jthread asks([&] {
      std::this_thread::sleep_for(milliseconds(20));
      stop.request_stop();
    });
    EXPECT_THAT([&] { (void)run_credential_process(command, kLong, stop.get_token()); },
                testing::ThrowsMessage<ErrorException>(HasSubstr("it was given up")));
  }
}

TEST(CredentialProcess, IsKilledWhereItOnlyClosesItsOutput) {
  EXPECT_EQ(refusal("exec >/dev/null; sleep 1000", milliseconds(200)), "it was not done after 200 ms");
}

}  // namespace
}  // namespace millrace::credential_process_test
