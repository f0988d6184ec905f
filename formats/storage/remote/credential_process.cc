#include "millrace/formats/storage/remote/credential_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/spawning.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kMostOutput = 64 << 10;
constexpr int64_t kMostWait = 100;  // ms, until it looks whether it is to stop

[[noreturn]] void fail(const std::string& what) { throw ErrorException(ErrorCode::kIo, what); }

class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) fail(fmt::format("it cannot be started: {}", std::strerror(errno)));
  }
  ~Pipe() {
    close(0);
    close(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void close_write_end() { close(1); }

 private:
  void close(size_t end) {
    if (ends_[end] >= 0) ::close(ends_[end]);
    ends_[end] = -1;
  }
  std::array<int, 2> ends_{-1, -1};
};

class Child {
 public:
  Child(const std::string& command, int output) {
    Spawning spawning;
    posix_spawn_file_actions_addopen(&spawning.files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&spawning.files, output, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&spawning.files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    // Signals as a shell expects them, and a group, so that its children can be killed with it.
    sigset_t none;
    sigset_t usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGCHLD, SIGHUP}) sigaddset(&usual, signal);
    posix_spawnattr_setsigmask(&spawning.attributes, &none);
    posix_spawnattr_setsigdefault(&spawning.attributes, &usual);
    posix_spawnattr_setpgroup(&spawning.attributes, 0);
    posix_spawnattr_setflags(&spawning.attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    std::string shell = "/bin/sh";
    std::string option = "-c";
    std::string text = command;
    char* const arguments[] = {shell.data(), option.data(), text.data(), nullptr};
    if (const int error =
            ::posix_spawn(&pid_, shell.c_str(), &spawning.files, &spawning.attributes, arguments, environ)) {
      fail(fmt::format("it cannot be started: {}", std::strerror(error)));
    }
  }
  ~Child() {
    if (is_done_) return;
    ::kill(-pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // How it ended, as wait(2) says it; nothing while it runs.
  std::optional<int> status() {
    int status = 0;
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) return std::nullopt;
    is_done_ = true;
    return ended > 0 ? status : 0;  // a program that ignores SIGCHLD hears of no status: what was written decides
  }

 private:
  pid_t pid_ = -1;
  bool is_done_ = false;
};

}  // namespace

std::string run_credential_process(const std::string& command, milliseconds deadline, const std::stop_token& stop) {
  const Clock::time_point end = Clock::now() + deadline;
  const auto left = [&] { return std::chrono::ceil<milliseconds>(end - Clock::now()); };
  const auto be_in_time = [&] {
    if (stop.stop_requested()) fail("it was given up");
    if (left() <= milliseconds(0)) fail(fmt::format("it was not done after {} ms", deadline.count()));
  };
  Pipe pipe;
  Child child(command, pipe.write_end());
  pipe.close_write_end();
  std::string output;
  std::array<char, 4096> piece;
  for (;;) {
    be_in_time();
    pollfd readable{.fd = pipe.read_end(), .events = POLLIN};
    const int ready = ::poll(&readable, 1, static_cast<int>(std::clamp<int64_t>(left().count(), 1, kMostWait)));
    if (ready < 0 && errno != EINTR) fail(fmt::format("its output cannot be read: {}", std::strerror(errno)));
    if (ready <= 0) continue;
    const ssize_t got = ::read(pipe.read_end(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(fmt::format("its output cannot be read: {}", std::strerror(errno)));
    if (got == 0) break;
    output.append(piece.data(), static_cast<size_t>(got));
    if (output.size() > kMostOutput) fail(fmt::format("it wrote more than {} bytes", kMostOutput));
  }
  std::optional<int> status;
  while (!(status = child.status())) {
    be_in_time();
    std::this_thread::sleep_for(milliseconds(1));
  }
  if (WIFSIGNALED(*status)) fail(fmt::format("it was ended by signal {}", WTERMSIG(*status)));
  if (WEXITSTATUS(*status) != 0) {
    fail(fmt::format("it ended with status {}; run it in a shell to see why", WEXITSTATUS(*status)));
  }
  return output;
}

}  // namespace millrace
