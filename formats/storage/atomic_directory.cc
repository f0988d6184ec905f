#include "millrace/formats/storage/atomic_directory.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/descriptor_lock.h"
#include "millrace/formats/storage/folder_names.h"
#include "millrace/formats/storage/local.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// In front of the name, so that such a directory never looks like a whole one.
constexpr std::string_view kUnfinished = ".tmp-";
constexpr std::string_view kDoomed = ".removed-";

[[noreturn]] void fail(const std::string& path, std::string_view what, int number) {
  throw ErrorException(
      {.code = ErrorCode::kIo, .message = fmt::format("{}: {}", what, std::strerror(number)), .shard = path});
}

template <typename Call>
void checked(const fs::path& path, std::string_view what, const Call& call) {
  std::error_code code;
  call(code);
  if (code) fail(path.string(), what, code.value());
}

void remove_tree(const fs::path& path) {
  checked(path, "cannot remove the directory", [&](std::error_code& code) { fs::remove_all(path, code); });
}

void sync(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(path.string(), "cannot open what was written", errno);
  const int result = ::fsync(descriptor);
  const int number = errno;
  ::close(descriptor);
  if (result != 0) fail(path.string(), "cannot bring it to the disk", number);
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const std::string& name : names_in(folder.string())) entries.push_back(folder / name);
  return entries;
}

// A directory and all in it.
void sync_all(const fs::path& directory) {
  for (const fs::path& entry : entries_of(directory)) {
    if (fs::is_directory(entry)) {
      sync_all(entry);
    } else {
      sync(entry);
    }
  }
  sync(directory);
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// Of the name of a directory, what fits into its temporary names.
std::string name_in_others(const fs::path& path) {
  constexpr size_t kRoomForMarkAndNumber = 24;
  return path.filename().string().substr(0, NAME_MAX - kRoomForMarkAndNumber);
}

fs::path beside(const fs::path& path, std::string_view mark, int number) {
  return folder_of(path) / fmt::format("{}{}.{}", mark, name_in_others(path), number);
}

// What comes after the mark, when there is one of those.
std::optional<std::string_view> after_mark(std::string_view name) {
  for (const std::string_view mark : {kUnfinished, kDoomed}) {
    if (name.starts_with(mark)) return name.substr(mark.size());
  }
  return std::nullopt;
}

// NAME of `NAME.N`; earlier versions wrote NAME alone.
std::string_view without_number(std::string_view name) {
  const size_t last = name.find_last_not_of("0123456789");
  const bool has_number = last != std::string_view::npos && last + 1 < name.size() && name[last] == '.';
  return has_number ? name.substr(0, last) : name;
}

int open_directory(const fs::path& path) {
  return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

enum class Without { kLocksStays, kLocksGoes };  // what happens to it where a file system has no locks

// Removes a directory that nobody holds, and holds it meanwhile: its name is nobody else's before it is gone.
void remove_unless_held(const fs::path& path, Without without) {
  const int descriptor = open_directory(path);
  if (descriptor < 0) {
    if (errno != ENOENT && without == Without::kLocksGoes) remove_tree(path);
    return;
  }
  const Locked locked = lock_alone(descriptor);
  const bool free = locked == Locked::kYes || (locked == Locked::kUnknown && without == Without::kLocksGoes);
  std::error_code code;
  if (free && has_name(descriptor, path.string())) fs::remove_all(path, code);
  ::close(descriptor);
  if (code && without == Without::kLocksGoes) fail(path.string(), "cannot remove the directory", code.value());
}

template <typename Predicate>
void remove_leftovers(const fs::path& folder, const Predicate& is_meant) {
  for (const fs::path& path : entries_of(folder)) {
    const std::string name = path.filename().string();
    const std::optional<std::string_view> rest = after_mark(name);
    if (rest && is_meant(*rest)) remove_unless_held(path, Without::kLocksStays);
  }
}

}  // namespace

AtomicDirectory::AtomicDirectory(std::string path) : path_(std::move(path)) {
  require_no_url(path_);
  const std::string name = name_in_others(path_);
  remove_leftovers(folder_of(path_), [&](std::string_view rest) { return without_number(rest) == name; });
  for (int number = 0; descriptor_ < 0; ++number) {
    temporary_path_ = beside(path_, kUnfinished, number).string();
    if (::mkdir(temporary_path_.c_str(), 0777) != 0) {
      if (errno != EEXIST) fail(temporary_path_, "cannot make the directory", errno);
      continue;
    }
    descriptor_ = open_directory(temporary_path_);
    if (descriptor_ < 0 && errno != ENOENT) fail(temporary_path_, "cannot open the directory", errno);
    // Not ours when somebody took it for that of a dead process before it was locked.
    if (descriptor_ >= 0 &&
        (lock_alone(descriptor_) == Locked::kByAnother || !has_name(descriptor_, temporary_path_))) {
      ::close(std::exchange(descriptor_, -1));
    }
  }
}

AtomicDirectory::~AtomicDirectory() {
  if (!committed_) {
    std::error_code ignored;  // the error that matters is on its way
    fs::remove_all(temporary_path_, ignored);
  }
  ::close(descriptor_);
}

void AtomicDirectory::commit() {
  sync_all(temporary_path_);
  const auto give_name = [&] { return ::rename(temporary_path_.c_str(), path_.c_str()) == 0; };
  const bool named = give_name();
  if (!named && errno != ENOTEMPTY && errno != EEXIST) fail(path_, "cannot give the directory its name", errno);
  const bool exchanged =
      !named && ::renameat2(AT_FDCWD, temporary_path_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0;
  if (!named && !exchanged) {
    // Not every file system can exchange: then the name is missing for a moment, but never damaged.
    remove_directory(path_);
    if (!give_name()) fail(path_, "cannot give the directory its name", errno);
  }
  committed_ = true;
  sync(folder_of(path_));
  if (exchanged) remove_unless_held(temporary_path_, Without::kLocksGoes);
}

void make_folder(const std::string& path) {
  require_no_url(path);
  std::error_code code;
  fs::create_directories(path, code);
  // A file in the way is no error to create_directories when it has the folder's own name.
  if (!code && !fs::is_directory(path, code)) code = std::make_error_code(std::errc::not_a_directory);
  if (code) fail(path, "cannot make the folder", code.value());
}

void remove_directory(const std::string& path) {
  fs::path doomed;
  for (int number = 0;; ++number) {
    doomed = beside(path, kDoomed, number);
    std::error_code ignored;
    if (fs::exists(fs::symlink_status(doomed, ignored))) continue;
    if (::rename(path.c_str(), doomed.c_str()) == 0) break;
    if (errno == ENOENT) return;
    if (errno != ENOTEMPTY && errno != EEXIST) fail(path, "cannot rename the directory", errno);
  }
  remove_unless_held(doomed, Without::kLocksGoes);
}

void remove_unfinished_directories(const std::string& folder, std::string_view prefix) {
  remove_leftovers(folder, [&](std::string_view rest) { return rest.starts_with(prefix); });
}

}  // namespace millrace
