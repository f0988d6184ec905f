#include "millrace/formats/storage/atomic_file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/descriptor_lock.h"
#include "millrace/formats/storage/folder_names.h"

namespace millrace {
namespace {

constexpr std::string_view kMark = ".tmp-";

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

size_t begin_of_name(const std::string& path) { return path.rfind('/') + 1; }  // npos: 0

// What the temporary names of a file begin with: its own, as far as there is room.
std::string temporary_prefix(const std::string& path) {
  constexpr size_t kRoomForNumbers = 24;
  constexpr size_t kMostOfName = NAME_MAX - kMark.size() - kRoomForNumbers;
  return path.substr(begin_of_name(path), kMostOfName);
}

// Removes a temporary file whose writer is dead: nobody holds it. Where there are no locks, nobody can tell.
void remove_if_dead(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return;
  struct stat opened {};
  // By now the writer may have renamed it, and another file have the name.
  if (::fstat(descriptor, &opened) == 0 && S_ISREG(opened.st_mode) && lock_alone(descriptor) == Locked::kYes &&
      has_name(descriptor, path)) {
    ::unlink(path.c_str());
  }
  ::close(descriptor);
}

// Whether a new file is ours: not when somebody took it for that of a dead writer before it was locked.
bool hold(int descriptor, const std::string& path) {
  return lock_alone(descriptor) != Locked::kByAnother && has_name(descriptor, path);
}

// What dead processes have left in the folders that this one writes to. A folder is looked through when the first file
// is written to it and not for each: it may hold as many files as are written.
class Leftovers {
 public:
  void remove_those_of(const std::string& path) {
    const std::string prefix = temporary_prefix(path);
    std::vector<std::string> found;
    {
      const std::lock_guard lock(mutex_);
      std::vector<std::string>& left = in_folder(folder_of(path));
      const auto other = std::partition(left.begin(), left.end(),
                                        [&](const std::string& name) { return written_name(name) != prefix; });
      found.assign(std::make_move_iterator(other), std::make_move_iterator(left.end()));
      left.erase(other, left.end());
    }
    for (const std::string& name : found) remove_if_dead(path.substr(0, begin_of_name(path)) + name);
  }

 private:
  struct Folder {
    std::string path;
    std::vector<std::string> left;  // names
  };
  static constexpr size_t kMostFolders = 16;

  std::vector<std::string>& in_folder(const std::string& path) {
    const auto known = std::ranges::find(folders_, path, &Folder::path);
    if (known != folders_.end()) return known->left;
    if (folders_.size() == kMostFolders) folders_.erase(folders_.begin());
    Folder& folder = folders_.emplace_back(Folder{.path = path, .left = {}});
    std::error_code ignored;  // whether files can be made is seen when one is
    folder.left = names_in(path, ignored);
    std::erase_if(folder.left, [](const std::string& name) { return written_name(name).empty(); });
    return folder.left;
  }

  std::mutex mutex_;
  std::vector<Folder> folders_;
};

}  // namespace

std::string_view written_name(std::string_view temporary) {
  for (const std::string_view before : {std::string_view("-"), kMark}) {
    const size_t last = temporary.find_last_not_of("0123456789");
    if (last == std::string_view::npos || last + 1 == temporary.size()) return {};
    temporary = temporary.substr(0, last + 1);
    if (!temporary.ends_with(before)) return {};
    temporary.remove_suffix(before.size());
  }
  return temporary;
}

AtomicFile::AtomicFile(std::string path) : LocalOutputFile(std::move(path)) {
  static Leftovers leftovers;
  static std::atomic<int> counter{0};  // two files of one process may be written to the same name
  leftovers.remove_those_of(path_);
  const std::string prefix = path_.substr(0, begin_of_name(path_)) + temporary_prefix(path_);
  while (descriptor_ < 0) {
    temporary_path_ = fmt::format("{}{}{}-{}", prefix, kMark, ::getpid(), counter.fetch_add(1));
    descriptor_ = ::open(temporary_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
      if (errno != EEXIST) fail("cannot create the file");
      // Of a dead process with our number, as there is in a container that was started again; or of one elsewhere.
      remove_if_dead(temporary_path_);
    } else if (!hold(descriptor_, temporary_path_)) {
      ::close(std::exchange(descriptor_, -1));
    }
  }
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (descriptor_ < 0) return;
  ::unlink(temporary_path_.c_str());  // while it is locked
  ::close(std::exchange(descriptor_, -1));
}

void AtomicFile::set_path(std::string path) {
  const auto folder = [](const std::string& name) {
    return std::filesystem::absolute(name).lexically_normal().parent_path();
  };
  if (folder(path) != folder(path_)) {
    throw ErrorException({.code = ErrorCode::kInvalidArgument,
                          .message = fmt::format("cannot give the file the name '{}', in another folder", path),
                          .shard = path_});
  }
  path_ = std::move(path);
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail("cannot bring the file to the disk");
  if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) fail("cannot give the file its name");
  ::close(std::exchange(descriptor_, -1));
  // The name itself must survive a power cut too. Some file systems cannot sync a folder; then there is nothing to do.
  const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
}

void write_atomically(std::string path, std::string_view bytes) {
  AtomicFile file(std::move(path));
  file.write(bytes);
  file.commit();
}

}  // namespace millrace
