#include "tests/memory/failing_runs.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <list>
#include <new>
#include <system_error>

#include <execinfo.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace millrace::test {
namespace {

constexpr size_t kAtATime = 2;
constexpr int64_t kRunsOfAHang = 50;  // of others, while nothing moves

void check(bool works, const char* what) {
  if (!works) throw std::system_error(errno, std::generic_category(), what);
}

std::string content_of(int file) {
  std::string text(static_cast<size_t>(::lseek(file, 0, SEEK_END)), '\0');
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, ::pread(file, text.data(), text.size(), 0))));
  return text;
}

class Run {
 public:
  // `result` is null for one whose end nobody asks for.
  Run(const std::function<int()>& program, const FailurePoint& point, FailingRun* result) : result_(result) {
    out_ = ::memfd_create("out", 0);
    err_ = ::memfd_create("err", 0);
    void* shared = ::mmap(nullptr, sizeof(AllocationCounts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(out_ >= 0 && err_ >= 0 && shared != MAP_FAILED, "a run");
    counts_ = new (shared) AllocationCounts;
    std::fflush(nullptr);
    pid_ = ::fork();
    check(pid_ >= 0, "fork");
    if (pid_ != 0) return;
    ::dup2(out_, STDOUT_FILENO);
    ::dup2(err_, STDERR_FILENO);
    int exit_code = 1;
    try {
      fail_allocation(*counts_, point.kind, point.number, point.and_later);
      exit_code = program();
    } catch (...) {  // nothing of the parent's is to run: what is missing is the line
    }
    std::exit(exit_code);
  }
  ~Run() {
    ::munmap(counts_, sizeof(AllocationCounts));
    ::close(out_);
    ::close(err_);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  pid_t pid() const { return pid_; }
  bool is_asked_for() const { return result_ != nullptr; }

  // After so many runs have ended.
  void look(int64_t ended) {
    const int64_t moves = counts_->large + counts_->small;
    if (moves != moves_) {
      moves_ = moves;
      moved_at_ = ended;
    } else if (ended - moved_at_ >= kRunsOfAHang && !hung_) {
      hung_ = true;
      ::kill(pid_, SIGKILL);
    }
  }

  void end(int status) {
    if (result_ == nullptr) return;
    *result_ = {.hung = hung_, .out = content_of(out_), .err = content_of(err_)};
    if (WIFEXITED(status)) result_->exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) result_->signal = WTERMSIG(status);
    result_->large = counts_->large;
    result_->small = counts_->small;
    char** const names = ::backtrace_symbols(counts_->failed_at.data(), counts_->num_frames);
    for (int i = 0; names != nullptr && i < counts_->num_frames; ++i)
      result_->failed_at += std::string(names[i]) + "\n";
    std::free(names);
  }

 private:
  FailingRun* const result_;
  int out_ = -1;
  int err_ = -1;
  AllocationCounts* counts_ = nullptr;
  pid_t pid_ = -1;
  int64_t moves_ = -1;
  int64_t moved_at_ = 0;
  bool hung_ = false;
};

std::string kind_of_end(const FailingRun& run, const FailingRun& right, AllocationKind kind) {
  if (run.hung) return "hangs";
  if (run.signal != 0) return fmt::format("ends by signal {}", run.signal);
  if (run.exit_code == 0) return run.out == right.out ? "" : "gives something else without an error";
  if (run.failed_at.empty()) return "fails without a failure";
  // What the program remarks in any case comes first.
  if (!run.err.starts_with(right.err)) return "loses its remarks";
  const std::string line = run.err.substr(right.err.size());
  if (std::count(line.begin(), line.end(), '\n') != 1 || !line.ends_with('\n')) return "does not end with one line";
  // Of a library the line may say something else: a stream that is made without memory has failed, and no more.
  if (kind == AllocationKind::kSmall) return "";
  for (const char* what : {"out of memory", "out_of_memory", "Cannot allocate memory"}) {
    if (line.find(what) != std::string::npos) return "";
  }
  return "does not say that memory ended";
}

}  // namespace

std::string fault_of(const FailingRun& run, const FailingRun& right, const FailurePoint& point) {
  const std::string fault = kind_of_end(run, right, point.kind);
  if (fault.empty()) return "";
  return fmt::format("{} at {} allocation {}{}:\n{}asked for by\n{}", fault,
                     point.kind == AllocationKind::kLarge ? "large" : "small", point.number,
                     point.and_later ? " and later" : "", run.err, run.failed_at);
}

std::vector<FailingRun> run_with_failures(const std::function<int()>& program, std::span<const FailurePoint> points) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGCHLD);
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &ends, &before);
  std::vector<FailingRun> results(points.size());
  std::list<Run> running;
  size_t next = 0;
  int64_t ended = 0;
  const auto start_without_failure = [&] { running.emplace_back(program, FailurePoint(), nullptr); };
  while (true) {
    while (running.size() < kAtATime && next < points.size()) {
      running.emplace_back(program, points[next], &results[next]);
      ++next;
    }
    const auto asked_for =
        std::count_if(running.begin(), running.end(), [](const Run& run) { return run.is_asked_for(); });
    if (asked_for == 0 && next == points.size()) break;
    int status = 0;
    pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid == 0) {
      constexpr timespec kPatience{.tv_sec = 0, .tv_nsec = 200'000'000};
      if (::sigtimedwait(&ends, nullptr, &kPatience) < 0 && running.size() < kAtATime + 2) start_without_failure();
      continue;
    }
    const auto run = std::find_if(running.begin(), running.end(), [&](const Run& one) { return one.pid() == pid; });
    if (run == running.end()) continue;
    run->end(status);
    running.erase(run);
    ++ended;
    for (Run& other : running) other.look(ended);
  }
  for (const Run& rest : running) {
    ::kill(rest.pid(), SIGKILL);
    ::waitpid(rest.pid(), nullptr, 0);
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return results;
}

}  // namespace millrace::test
