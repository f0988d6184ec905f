#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace millrace::test {

struct ChildOptions {
  /// `NAME=value`, on top of the test's own environment. Default: none
  std::vector<std::string> environment;
  /// No file that it writes may grow further: a write beyond fails, as on a full disk. Default: no limit
  std::optional<uint64_t> most_file_bytes;
};

/// What a child process came to.
struct ChildResult {
  int exit_code = -1;  ///< -1 when a signal ended it
  int signal = 0;      ///< 0 when none did
  std::string out;     ///< standard output, all of it
  std::string err;     ///< standard error
  /// The most that was resident, in bytes; at least what the test itself had when it started the child
  int64_t peak_resident_bytes = 0;
};

/// A program that runs beside the test, in a process group of its own, with nothing on standard input and its output
/// captured. Killed at the end, with what it started, if it still runs. One thread at a time.
///
///     ChildProcess child({test::kToyTraining, folder, "100", "0"});
///     while (child.read_line() != "step 3") {}
///     child.signal(SIGINT);
///     EXPECT_EQ(child.wait().exit_code, 130);
class ChildProcess {
 public:
  using Limit = std::chrono::milliseconds;
  static constexpr Limit kLimit = std::chrono::minutes(5);

  /// `arguments[0]` is the path of the program. Throws std::system_error when it cannot be started.
  explicit ChildProcess(const std::vector<std::string>& arguments, const ChildOptions& options = {});
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// The next line of standard output without its end, or nothing when there are no more. A last line without an end is
  /// left out: it may be cut. Throws std::runtime_error, with what came on standard error, when none comes in time.
  std::optional<std::string> read_line(Limit limit = kLimit);
  /// To the program and to what it started, as a terminal sends Ctrl-C. Nothing happens when it has ended.
  void signal(int number);
  bool running();
  /// Takes what has come on its outputs, without waiting. A program whose outputs nobody takes stands still when the
  /// pipe is full, after 64 KiB; `read_line` and `wait` take them too.
  void take_output() {
    while (read_some(Limit(0))) {
    }
  }
  pid_t pid() const { return pid_; }
  /// Waits for its end. Throws as `read_line` does when it does not come in time.
  ChildResult wait(Limit limit = kLimit);

 private:
  struct Output {
    int file = -1;     // -1 at its end
    std::string text;  // all that came
  };

  bool reap();
  // Takes what has come on either output, and waits for it this long; false when nothing had.
  bool read_some(Limit limit);
  [[noreturn]] void throw_late(const std::string& what, Limit limit) const;

  std::string program_;
  pid_t pid_ = -1;
  Output out_;
  Output err_;
  size_t line_begin_ = 0;  // in out_.text: after the lines that were read
  std::optional<int> status_;
  int64_t peak_resident_bytes_ = 0;  // when it is there
};

/// Arguments of a program, and more of them: an option that is there already, with a value, gets the later one.
std::vector<std::string> with_options(std::vector<std::string> arguments, const std::vector<std::string>& more);

/// Runs a program to its end.
ChildResult run_child(const std::vector<std::string>& arguments, const ChildOptions& options = {},
                      ChildProcess::Limit limit = ChildProcess::kLimit);

}  // namespace millrace::test
