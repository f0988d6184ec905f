#include "millrace/formats/storage/atomic_file.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace millrace {
namespace {

std::string temporary_name(const std::string& path) {
  static std::atomic<int> counter{0};  // two files of one process may be written to the same name
  return fmt::format("{}.tmp-{}-{}", path, ::getpid(), counter.fetch_add(1));
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : OutputFile(std::move(path)), temporary_path_(temporary_name(path_)) {
  descriptor_ = ::open(temporary_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("cannot create the file");
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (descriptor_ < 0) return;
  ::close(std::exchange(descriptor_, -1));
  ::unlink(temporary_path_.c_str());
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
