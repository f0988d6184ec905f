#include "millrace/formats/storage/local.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/folder_names.h"
#include "millrace/formats/storage/shown_url.h"

namespace millrace {

std::string note_on_url(std::string_view path) {
  const size_t end = path.find("://");
  if (end == std::string_view::npos || end == 0) return "";
  const std::string_view scheme = path.substr(0, end);
  const bool is_scheme = std::ranges::all_of(scheme, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' || c == '-' ||
           c == '.';
  });
  if (!is_scheme) return "";
  if (scheme == "file") return "; local files are named by their path alone, without file://";
  for (const std::string_view known : {"s3", "gs", "http", "https"}) {
    if (scheme == known) return fmt::format("; only local files are read here, no {}://", scheme);
  }
  return fmt::format("; local files and URLs of s3, gs, http and https are read, no {}://", scheme);
}

void require_no_url(const std::string& path) {
  if (note_on_url(path).empty()) return;
  throw ErrorException({.code = ErrorCode::kInvalidArgument,
                        .message = "only local files are written here, named by their path alone",
                        .shard = shown_url(path)});
}

namespace {

StorageError system_error(const std::string& path, std::string_view what, int number) {
  StorageError result;
  result.error.code = ErrorCode::kIo;
  result.error.message = fmt::format("{}: {}", what, std::strerror(number));
  result.error.shard = path;
  // A device that is busy or out of memory may answer later; everything else stays as it is.
  result.retriable = number == EINTR || number == EAGAIN || number == ENOMEM || number == ESTALE || number == ETIMEDOUT;
  result.not_found = number == ENOENT || number == ENOTDIR;
  return result;
}

// What helps where there are too many open files; else nothing.
std::string note_on_limit(int number) {
  rlimit limit{};
  if (number != EMFILE || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return "";
  return fmt::format("; this process may have {} (ulimit -n), and every shard that is read in turn is one",
                     limit.rlim_cur);
}

class LocalFile final : public File, public std::enable_shared_from_this<LocalFile> {
 public:
  LocalFile(IoExecutor& executor, std::string path, int descriptor, const struct stat& status)
      : executor_(executor), path_(std::move(path)), descriptor_(descriptor), status_(status) {}
  LocalFile(const LocalFile&) = delete;
  LocalFile& operator=(const LocalFile&) = delete;
  ~LocalFile() override { ::close(descriptor_); }

  uint64_t size() const override { return static_cast<uint64_t>(status_.st_size); }
  std::string version() const override {
    std::string text =
        fmt::format("{} bytes, modified {}.{:09}", status_.st_size, status_.st_mtim.tv_sec, status_.st_mtim.tv_nsec);
    // File systems in user space may number a file anew whenever it is opened.
    struct statfs system {};
    if (::fstatfs(descriptor_, &system) == 0 && system.f_type != FUSE_SUPER_MAGIC) {
      text += fmt::format(", inode {}", status_.st_ino);
    }
    return text;
  }

  void read(uint64_t offset, std::span<std::byte> destination, std::shared_ptr<ReadSink> sink) override {
    if (cached_reads_.load(std::memory_order_relaxed)) {
      iovec part{destination.data(), destination.size()};
      ssize_t count;
      do {
        count = ::preadv2(descriptor_, &part, 1, static_cast<off_t>(offset), RWF_NOWAIT);
      } while (count < 0 && errno == EINTR);
      if (count >= 0) {
        sink->read_done({.bytes = static_cast<size_t>(count)});
        return;
      }
      // Some file systems (tmpfs before Linux 6.x) cannot tell whether they would block: never ask again.
      if (errno != EAGAIN) cached_reads_.store(false, std::memory_order_relaxed);
    }
    executor_.submit([self = shared_from_this(), offset, destination, sink = std::move(sink)] {
      sink->read_done(self->read_blocking(offset, destination));
    });
  }

 private:
  ReadResult read_blocking(uint64_t offset, std::span<std::byte> destination) const noexcept {
    ssize_t count;
    do {
      count = ::pread(descriptor_, destination.data(), destination.size(), static_cast<off_t>(offset));
    } while (count < 0 && errno == EINTR);
    if (count >= 0) return {.bytes = static_cast<size_t>(count)};
    ReadResult result{.ok = false};
    try {
      result.error = system_error(path_, "cannot read", errno);
      result.error.error.offset = static_cast<int64_t>(offset);
    } catch (...) {
      result.error = {.error = current_exception_as_error()};
    }
    return result;
  }

  IoExecutor& executor_;
  const std::string path_;
  const int descriptor_;
  const struct stat status_;
  std::atomic<bool> cached_reads_{true};
};

// Takes the descriptor (or the errno in its place) to an open file.
OpenResult file_of(IoExecutor& executor, const std::string& path, int descriptor, int number) {
  if (descriptor < 0) {
    OpenResult failed{.error = system_error(path, "cannot open", number)};
    failed.error.error.message += note_on_url(path) + note_on_limit(number);
    return failed;
  }
  struct Closed {
    ~Closed() {
      if (descriptor >= 0) ::close(descriptor);
    }
    int descriptor;
  } closed{descriptor};
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return {.error = system_error(path, "cannot open", errno)};
  if (!S_ISREG(status.st_mode)) {
    return {.error = system_error(path, "cannot open: not a regular file", S_ISDIR(status.st_mode) ? EISDIR : EINVAL)};
  }
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);  // advice: a refusal changes nothing
  OpenResult opened{.file = std::make_shared<LocalFile>(executor, path, descriptor, status)};
  closed.descriptor = -1;
  return opened;
}

// The same on a thread where nothing may be thrown.
OpenResult finish_open(IoExecutor& executor, const std::string& path, int descriptor, int number) noexcept {
  try {
    return file_of(executor, path, descriptor, number);
  } catch (...) {
    return {.error = {.error = current_exception_as_error()}};
  }
}

// O_NONBLOCK: opening a named pipe must not wait for its writer; regular files ignore it.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

int open_cached(const std::string& path) {
  open_how how{};
  how.flags = kOpenFlags;
  how.resolve = RESOLVE_CACHED;
  return static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof(how)));
}

}  // namespace

void LocalStorage::open(const std::string& path, std::shared_ptr<OpenSink> sink) {
  const int descriptor = open_cached(path);
  if (descriptor >= 0) {
    sink->open_done(finish_open(executor_, path, descriptor, 0));
    return;
  }
  // Whatever the reason (not cached, no such call, no such file), the ordinary call has the final word.
  executor_.submit([&executor = executor_, path, sink = std::move(sink)] {
    int opened;
    do {
      opened = ::open(path.c_str(), kOpenFlags);
    } while (opened < 0 && errno == EINTR);
    sink->open_done(finish_open(executor, path, opened, errno));
  });
}

std::vector<std::string> LocalStorage::glob(const std::string& pattern) { return glob_local(pattern); }

namespace {

std::string unescaped(std::string_view part) {
  std::string name;
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] == '\\' && i + 1 < part.size()) ++i;
    name += part[i];
  }
  return name;
}

// Adds the paths that are `found` and then match `pattern`, of folders with a slash at the end. Not by glob(3): where
// memory ends, glibc's frees twice.
void expand(std::string found, std::string_view pattern, std::vector<std::string>& paths) {
  const size_t begin = pattern.find_first_not_of('/');
  struct stat status {};
  if (begin == std::string_view::npos) {
    if (::stat(found.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) paths.push_back(found + '/');
    return;
  }
  found += pattern.substr(0, begin);
  const size_t end = std::min(pattern.find('/', begin), pattern.size());
  const std::string part(pattern.substr(begin, end - begin));
  const auto go_on_with = [&](const std::string& name) {
    std::string path = found + name;
    if (end < pattern.size()) return expand(std::move(path), pattern.substr(end), paths);
    // Also a link to nowhere is there.
    if (::stat(path.c_str(), &status) != 0 && ::lstat(path.c_str(), &status) != 0) return;
    if (S_ISDIR(status.st_mode)) path += '/';
    paths.push_back(std::move(path));
  };
  if (part.find_first_of("*?[") == std::string::npos) return go_on_with(unescaped(part));
  const size_t last = found.find_last_not_of('/');
  const std::string folder = found.empty() ? "." : last == std::string::npos ? "/" : found.substr(0, last + 1);
  std::error_code error;
  std::vector<std::string> names = names_in(folder, error);
  names.insert(names.end(), {".", ".."});  // as glob(3), of a pattern with a period
  // A folder that is not there matches nothing; one that may not be read could hide matches.
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory) {
    throw ErrorException(ErrorCode::kIo, fmt::format("{}: {}", folder, error.message()));
  }
  for (const std::string& name : names) {
    if (::fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) == 0) go_on_with(name);
  }
}

}  // namespace

std::vector<std::string> glob_local(const std::string& pattern) {
  struct stat of_name {};
  if (::stat(pattern.c_str(), &of_name) == 0 && !S_ISDIR(of_name.st_mode)) return {pattern};
  std::vector<std::string> paths;
  if (pattern.empty()) return paths;
  try {
    expand("", pattern, paths);
  } catch (const ErrorException& exception) {
    throw ErrorException(ErrorCode::kIo, fmt::format("cannot list '{}': {}", pattern, exception.error().message));
  }
  std::sort(paths.begin(), paths.end());  // by bytes, whatever the locale
  return paths;
}

}  // namespace millrace
