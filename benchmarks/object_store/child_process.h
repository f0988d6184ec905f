#pragma once

#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

namespace millrace {

/// This program in a process of its own, with other arguments. Its standard error is ours. Ends, as a server that
/// serves until its input ends, when it goes.
class ChildProcess {
 public:
  /// Throws `kIo`.
  explicit ChildProcess(std::vector<std::string> arguments);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// The next line of its output, without its end. Throws `kIo` where there is none.
  [[nodiscard]] std::string line();
  /// Ends its input, waits for its end, and gives the rest of its output: lines `NAME NUMBER`. Once. Throws `kIo` where
  /// it fails.
  [[nodiscard]] std::map<std::string, double> finish();

 private:
  bool read_more();
  int wait();

  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
  std::string text_;  // read, and not given yet
};

}  // namespace millrace
