#pragma once

#include <csignal>
#include <cstdlib>
#include <functional>

#include <sys/wait.h>
#include <unistd.h>

namespace millrace::test {

/// A process that does this and then waits to be killed; made when it has done it, or died meanwhile.
class ForkedChild {
 public:
  explicit ForkedChild(const std::function<void()>& work) {
    int ends[2];
    if (::pipe(ends) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      work();
      (void)!::write(ends[1], "x", 1);
      while (true) ::pause();
    }
    ::close(ends[1]);
    char byte = 0;
    did_it_ = ::read(ends[0], &byte, 1) == 1;
    ::close(ends[0]);
  }
  ~ForkedChild() { kill(); }
  ForkedChild(const ForkedChild&) = delete;
  ForkedChild& operator=(const ForkedChild&) = delete;

  /// Whether it came to the end of its work.
  bool did_it() const { return did_it_; }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
  bool did_it_ = false;
};

}  // namespace millrace::test
