#include "benchmarks/object_store/child_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/spawning.h"

namespace millrace {
namespace {

[[noreturn]] void fail(const std::string& what) { throw ErrorException(ErrorCode::kIo, what); }

void close_end(int& end) {
  if (end >= 0) ::close(end);
  end = -1;
}

}  // namespace

ChildProcess::ChildProcess(std::vector<std::string> arguments) {
  std::array<int, 2> in{-1, -1};
  std::array<int, 2> out{-1, -1};
  int error = ::pipe2(in.data(), O_CLOEXEC) == 0 && ::pipe2(out.data(), O_CLOEXEC) == 0 ? 0 : errno;
  if (error == 0) {
    arguments.insert(arguments.begin(), "object_store_bench");
    std::vector<char*> words;
    words.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    Spawning spawning;
    posix_spawn_file_actions_adddup2(&spawning.files, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&spawning.files, out[1], STDOUT_FILENO);
    error = ::posix_spawn(&pid_, "/proc/self/exe", &spawning.files, nullptr, words.data(), environ);
  }
  close_end(in[0]);
  close_end(out[1]);
  input_ = in[1];
  output_ = out[0];
  if (error == 0) return;
  close_end(input_);
  close_end(output_);
  fail(fmt::format("a process cannot be started: {}", std::strerror(error)));
}

ChildProcess::~ChildProcess() {
  close_end(input_);
  close_end(output_);
  if (pid_ > 0) wait();
}

std::string ChildProcess::line() {
  size_t end = text_.find('\n');
  for (; end == text_.npos; end = text_.find('\n')) {
    if (!read_more()) fail("a process that was started ended before its time");
  }
  std::string line = text_.substr(0, end);
  text_.erase(0, end + 1);
  return line;
}

std::map<std::string, double> ChildProcess::finish() {
  close_end(input_);
  while (read_more()) {
  }
  if (const int status = wait(); status != 0) fail(fmt::format("a process that was started failed, status {}", status));
  std::map<std::string, double> figures;
  for (std::string_view rest = text_; !rest.empty();) {
    const std::string line(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const size_t blank = line.find(' ');
    if (blank != line.npos) figures[line.substr(0, blank)] = std::strtod(line.c_str() + blank, nullptr);
  }
  return figures;
}

bool ChildProcess::read_more() {
  std::array<char, 4096> piece;
  ssize_t got;
  do {
    got = ::read(output_, piece.data(), piece.size());
  } while (got < 0 && errno == EINTR);
  if (got > 0) text_.append(piece.data(), static_cast<size_t>(got));
  return got > 0;
}

int ChildProcess::wait() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return status;
}

}  // namespace millrace
