#include "millrace/tokenizer/training/embedded_program.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/spawning.h"

namespace millrace {
namespace {

[[noreturn]] void fail(std::string_view name, std::string_view what, int error) {
  throw ErrorException(error == ENOMEM || error == ENOSPC ? ErrorCode::kOutOfMemory : ErrorCode::kIo,
                       fmt::format("{}: {}: {}", name, what, std::generic_category().message(error)));
}

// A file that nobody else sees and that goes with its last user.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view program, unsigned flags = 0)
      : program_(program), file_(::memfd_create(program_.c_str(), MFD_CLOEXEC | flags)) {
    // Kernels before 6.3 do not know the flag, and let every such file be executed.
    if (file_ < 0 && errno == EINVAL && flags != 0) file_ = ::memfd_create(program_.c_str(), MFD_CLOEXEC);
    if (file_ < 0) fail(program_, "cannot make a file in memory", errno);
    // Where the caller's program has closed its standard input or output, the file has got their number.
    const int above = ::fcntl(file_, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int error = errno;
    ::close(std::exchange(file_, above));
    if (above < 0) fail(program_, "cannot make a file in memory", error);
  }
  MemoryFile(std::string_view program, std::string_view content, unsigned flags = 0) : MemoryFile(program, flags) {
    while (!content.empty()) {
      const ssize_t written = ::write(file_, content.data(), content.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail(program_, "cannot write a file in memory", errno);
      content.remove_prefix(static_cast<size_t>(written));
    }
    ::lseek(file_, 0, SEEK_SET);
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int file() const { return file_; }

  std::string content() const {
    std::string bytes(static_cast<size_t>(::lseek(file_, 0, SEEK_END)), '\0');
    size_t size = 0;
    while (size < bytes.size()) {
      const ssize_t got = ::pread(file_, bytes.data() + size, bytes.size() - size, static_cast<off_t>(size));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(program_, "cannot read what it wrote", errno);
      if (got == 0) break;
      size += static_cast<size_t>(got);
    }
    bytes.resize(size);
    return bytes;
  }

 private:
  const std::string program_;
  int file_;
};

// Where the caller's program takes the end of all its children (SIGCHLD is ignored, or another thread waits for any of
// them) only that it has ended is known.
std::string wait_for(pid_t pid) {
  int status = 0;
  pid_t waited = -1;
  do waited = ::waitpid(pid, &status, 0);
  while (waited < 0 && errno == EINTR);
  if (waited < 0) return "has ended";
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return fmt::format("was ended by signal {} ({})", signal, ::sigdescr_np(signal));
  }
  return fmt::format("ended with status {}", WEXITSTATUS(status));
}

}  // namespace

ProgramResult run_embedded_program(std::string_view name, std::string_view executable, std::string_view input) {
  constexpr unsigned kMayBeExecuted = 0x10;  // MFD_EXEC, which Debian 12's headers do not have yet
  const MemoryFile program(name, executable, kMayBeExecuted);
  const MemoryFile in(name, input);
  const MemoryFile out(name);

  Spawning spawning;
  posix_spawn_file_actions_adddup2(&spawning.files, in.file(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&spawning.files, out.file(), STDOUT_FILENO);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&spawning.attributes, &none);
  posix_spawnattr_setflags(&spawning.attributes, POSIX_SPAWN_SETSIGMASK);
  const std::string path = fmt::format("/proc/self/fd/{}", program.file());
  std::string argument(name);
  char* const arguments[] = {argument.data(), nullptr};
  pid_t pid = -1;
  if (const int error = ::posix_spawn(&pid, path.c_str(), &spawning.files, &spawning.attributes, arguments, environ)) {
    fail(name, "cannot be started", error);
  }
  std::string ending = wait_for(pid);
  return {.output = out.content(), .ending = std::move(ending)};
}

}  // namespace millrace
