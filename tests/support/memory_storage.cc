#include "tests/support/memory_storage.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fnmatch.h>

namespace millrace::test {
namespace {

class MemoryFile final : public File {
 public:
  explicit MemoryFile(std::shared_ptr<const std::string> content) : content_(std::move(content)) {}
  uint64_t size() const override { return content_->size(); }
  std::string version() const override { return std::to_string(content_->size()); }
  void read(uint64_t offset, std::span<std::byte> destination, std::shared_ptr<ReadSink> sink) override {
    const size_t begin = std::min<size_t>(offset, content_->size());
    const size_t count = std::min(destination.size(), content_->size() - begin);
    std::memcpy(destination.data(), content_->data() + begin, count);
    sink->read_done({.bytes = count});
  }

 private:
  std::shared_ptr<const std::string> content_;
};

}  // namespace

void MemoryStorage::add(std::string path, std::string content) {
  files_[std::move(path)] = std::make_shared<const std::string>(std::move(content));
}

void MemoryStorage::open(const std::string& path, std::shared_ptr<OpenSink> sink) {
  const auto found = files_.find(path);
  if (found == files_.end()) {
    sink->open_done({.error = {.error = {.code = ErrorCode::kIo, .message = "cannot open: no such file", .shard = path},
                               .not_found = true}});
    return;
  }
  sink->open_done({.file = std::make_shared<MemoryFile>(found->second)});
}

std::vector<std::string> MemoryStorage::glob(const std::string& pattern) {
  std::vector<std::string> paths;
  for (const auto& [path, content] : files_) {
    if (::fnmatch(pattern.c_str(), path.c_str(), FNM_PATHNAME) == 0) paths.push_back(path);
  }
  return paths;
}

}  // namespace millrace::test
