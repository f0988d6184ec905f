#include "tests/support/child_process.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace millrace::test {
namespace {

using Clock = std::chrono::steady_clock;

// A child that ended is noticed this late at most.
constexpr ChildProcess::Limit kTick{2};

struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
    read_end = ends[0];
    write_end = ends[1];
  }
  int read_end;
  int write_end;
};

std::vector<std::string> merged_environment(const std::vector<std::string>& added) {
  std::vector<std::string> all = added;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('=') + 1);
    bool replaced = false;
    for (const std::string& other : added) replaced = replaced || other.starts_with(name);
    if (!replaced) all.emplace_back(text);
  }
  return all;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& arguments, const ChildOptions& options)
    : program_(arguments.at(0)) {
  const std::vector<std::string> environment = merged_environment(options.environment);
  const std::vector<char*> argv = pointers_to(arguments);
  const std::vector<char*> envp = pointers_to(environment);
  const Pipe out;
  const Pipe err;
  const Pipe failure;  // closed by a successful exec
  pid_ = ::fork();
  if (pid_ == 0) {
    // Only what may be called between fork and exec.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setpgid(0, 0);
    ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
    ::dup2(out.write_end, STDOUT_FILENO);
    ::dup2(err.write_end, STDERR_FILENO);
    if (options.most_file_bytes) {
      const rlimit limit = {*options.most_file_bytes, *options.most_file_bytes};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      ::signal(SIGXFSZ, SIG_IGN);  // write() fails with EFBIG instead
    }
    ::execve(argv[0], argv.data(), envp.data());
    const int number = errno;
    (void)!::write(failure.write_end, &number, sizeof number);
    ::_exit(127);
  }
  int number = pid_ < 0 ? errno : 0;
  for (const Pipe* pipe : {&out, &err, &failure}) ::close(pipe->write_end);
  if (pid_ > 0) {
    while (::read(failure.read_end, &number, sizeof number) < 0 && errno == EINTR) {
    }
  }
  ::close(failure.read_end);
  if (number != 0) {
    for (const Pipe* pipe : {&out, &err}) ::close(pipe->read_end);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    throw std::system_error(number, std::generic_category(), "cannot start " + program_);
  }
  out_.file = out.read_end;
  err_.file = err.read_end;
  for (const int file : {out_.file, err_.file}) ::fcntl(file, F_SETFL, O_NONBLOCK);
}

ChildProcess::~ChildProcess() {
  if (!reap()) {
    signal(SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  for (const int file : {out_.file, err_.file}) {
    if (file >= 0) ::close(file);
  }
}

std::optional<std::string> ChildProcess::read_line(Limit limit) {
  const auto deadline = Clock::now() + limit;
  for (;;) {
    if (const size_t end = out_.text.find('\n', line_begin_); end != std::string::npos) {
      std::string line = out_.text.substr(line_begin_, end - line_begin_);
      line_begin_ = end + 1;
      return line;
    }
    if (out_.file < 0) return std::nullopt;
    const bool ended = reap();
    // What it started may hold the pipe open: nothing more is waited for.
    if (!read_some(kTick) && ended) return std::nullopt;
    if (Clock::now() > deadline) throw_late("a line", limit);
  }
}

void ChildProcess::signal(int number) {
  if (!reap()) ::kill(-pid_, number);  // not reaped yet: the number is still its own
}

bool ChildProcess::running() { return !reap(); }

ChildResult ChildProcess::wait(Limit limit) {
  const auto deadline = Clock::now() + limit;
  while (!reap()) {
    if (Clock::now() > deadline) throw_late("its end", limit);
    read_some(kTick);  // or it would wait forever with a full pipe
  }
  take_output();
  ChildResult result{.out = out_.text, .err = err_.text, .peak_resident_bytes = peak_resident_bytes_};
  if (WIFEXITED(*status_)) {
    result.exit_code = WEXITSTATUS(*status_);
  } else {
    result.signal = WTERMSIG(*status_);
  }
  return result;
}

bool ChildProcess::reap() {
  if (status_) return true;
  int status = 0;
  rusage usage{};
  pid_t reaped = 0;
  do {
    reaped = ::wait4(pid_, &status, WNOHANG, &usage);
  } while (reaped < 0 && errno == EINTR);
  if (reaped < 0) throw std::system_error(errno, std::generic_category(), "waitpid");
  if (reaped == 0) return false;
  status_ = status;
  peak_resident_bytes_ = int64_t{usage.ru_maxrss} << 10;
  return true;
}

bool ChildProcess::read_some(Limit limit) {
  pollfd files[2] = {{.fd = out_.file, .events = POLLIN, .revents = 0},
                     {.fd = err_.file, .events = POLLIN, .revents = 0}};  // -1 is left out
  if (::poll(files, 2, static_cast<int>(limit.count())) <= 0) return false;
  bool came = false;
  for (Output* output : {&out_, &err_}) {
    if (output->file < 0) continue;
    char part[1 << 14];
    const ssize_t count = ::read(output->file, part, sizeof part);
    if (count > 0) {
      output->text.append(part, static_cast<size_t>(count));
      came = true;
    } else if (count == 0) {
      ::close(output->file);
      output->file = -1;
    }
  }
  return came;
}

void ChildProcess::throw_late(const std::string& what, Limit limit) const {
  throw std::runtime_error(program_ + " did not give " + what + " within " + std::to_string(limit.count()) +
                           " ms; on standard error: " + err_.text);
}

std::vector<std::string> with_options(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  for (size_t i = 0; i < more.size(); ++i) {
    const auto found = std::ranges::find(arguments, more[i]);
    if (more[i].starts_with("--") && found != arguments.end() && i + 1 < more.size()) {
      *(found + 1) = more[++i];
    } else {
      arguments.push_back(more[i]);
    }
  }
  return arguments;
}

ChildResult run_child(const std::vector<std::string>& arguments, const ChildOptions& options,
                      ChildProcess::Limit limit) {
  return ChildProcess(arguments, options).wait(limit);
}

}  // namespace millrace::test
