#include "millrace/formats/storage/growing_file.h"

#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace millrace {

GrowingFile::GrowingFile(std::string path, GrowingFrom from) : LocalOutputFile(std::move(path)) {
  const int start = from == GrowingFrom::kEmpty ? O_TRUNC : O_APPEND;
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | start, 0666);
  if (descriptor_ < 0) fail(from == GrowingFrom::kEmpty ? "cannot create the file" : "cannot open the file");
}

GrowingFile::~GrowingFile() { discard(); }

void GrowingFile::discard() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void GrowingFile::commit() {
  if (::fsync(descriptor_) != 0) fail("cannot bring the file to the disk");
  // Network file systems report a full disk here.
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("cannot close the file");
}

}  // namespace millrace
