#include "millrace/formats/storage/atomic_directory.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "millrace/formats/error.h"

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
  checked(folder, "cannot read the folder", [&](std::error_code& code) {
    for (fs::directory_iterator entry(folder, code); !code && entry != fs::end(entry); entry.increment(code)) {
      entries.push_back(entry->path());
    }
  });
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

fs::path beside(const fs::path& path, std::string_view mark) {
  return folder_of(path) / (std::string(mark) + path.filename().string());
}

}  // namespace

AtomicDirectory::AtomicDirectory(std::string path)
    : path_(std::move(path)), temporary_path_(beside(path_, kUnfinished).string()) {
  remove_tree(temporary_path_);
  checked(temporary_path_, "cannot make the directory",
          [&](std::error_code& code) { fs::create_directory(temporary_path_, code); });
}

AtomicDirectory::~AtomicDirectory() {
  if (committed_) return;
  std::error_code ignored;  // the error that matters is on its way
  fs::remove_all(temporary_path_, ignored);
}

void AtomicDirectory::commit() {
  sync_all(temporary_path_);
  if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) fail(path_, "cannot give the directory its name", errno);
    if (::renameat2(AT_FDCWD, temporary_path_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0) {
      remove_tree(temporary_path_);
    } else {
      // Not every file system can exchange: then the name is missing for a moment, but never damaged.
      remove_directory(path_);
      if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
        fail(path_, "cannot give the directory its name", errno);
      }
    }
  }
  committed_ = true;
  sync(folder_of(path_));
}

void make_folder(const std::string& path) {
  std::error_code code;
  fs::create_directories(path, code);
  // A file in the way is no error to create_directories when it has the folder's own name.
  if (!code && !fs::is_directory(path, code)) code = std::make_error_code(std::errc::not_a_directory);
  if (code) fail(path, "cannot make the folder", code.value());
}

void remove_directory(const std::string& path) {
  const fs::path doomed = beside(path, kDoomed);
  remove_tree(doomed);
  if (::rename(path.c_str(), doomed.c_str()) != 0) {
    if (errno == ENOENT) return;
    fail(path, "cannot rename the directory", errno);
  }
  remove_tree(doomed);
}

void remove_unfinished_directories(const std::string& folder, std::string_view prefix) {
  for (const fs::path& path : entries_of(folder)) {
    const std::string name = path.filename().string();
    for (const std::string_view mark : {kUnfinished, kDoomed}) {
      if (name.starts_with(mark) && std::string_view(name).substr(mark.size()).starts_with(prefix)) remove_tree(path);
    }
  }
}

}  // namespace millrace
