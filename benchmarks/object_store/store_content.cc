#include "benchmarks/object_store/store_content.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/tfrecord/crc.h"

namespace millrace {
namespace {

constexpr int64_t kSmallRecords = 128;
constexpr int64_t kFrame = 16;  // bytes around a payload

// A bijection that scatters: the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
uint64_t scattered(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

void write_record(char* to, uint64_t number, size_t payload_bytes) {
  const auto put = [&to](const auto& value) {
    std::memcpy(to, &value, sizeof(value));
    to += sizeof(value);
  };
  put(static_cast<uint64_t>(payload_bytes));
  put(masked_crc32c_of_length(payload_bytes));
  const std::string_view payload(to, payload_bytes);
  for (size_t place = 0; place < payload_bytes; place += sizeof(uint64_t)) {
    const uint64_t word = scattered(number * payload_bytes + place + 1);
    std::memcpy(to + place, &word, std::min(sizeof(word), payload_bytes - place));
  }
  to += payload_bytes;
  put(masked_crc32c(payload));
}

class ContentFile final : public File {
 public:
  explicit ContentFile(std::string_view bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  std::string version() const override { return "content"; }
  void read(uint64_t offset, std::span<std::byte> destination, std::shared_ptr<ReadSink> sink) override {
    const std::string_view left = offset < bytes_.size() ? bytes_.substr(offset) : std::string_view();
    const size_t bytes = std::min(left.size(), destination.size());
    if (bytes > 0) std::memcpy(destination.data(), left.data(), bytes);
    sink->read_done({.bytes = bytes});
  }

 private:
  const std::string_view bytes_;
};

}  // namespace

StoreContent::StoreContent(const ContentSize& size) {
  const int64_t framed = size.record_bytes + kFrame;
  const int64_t shard_records = std::max<int64_t>(size.shard_bytes / framed, 1);
  const int64_t num_records = std::max(shard_records + size.shards, kSmallRecords + size.small);
  size_ = static_cast<size_t>(num_records * framed);
  descriptor_ = ::memfd_create("store_content", MFD_CLOEXEC);
  void* const mapped = descriptor_ < 0 || ::ftruncate(descriptor_, num_records * framed) != 0
                           ? MAP_FAILED
                           : ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (mapped == MAP_FAILED) {
    throw ErrorException(ErrorCode::kIo, fmt::format("no memory for the objects: {}", std::strerror(errno)));
  }
  data_ = static_cast<char*>(mapped);
  for (int64_t number = 0; number < num_records; ++number) {
    write_record(data_ + number * framed, static_cast<uint64_t>(number), static_cast<size_t>(size.record_bytes));
  }
  ::madvise(data_, size_, MADV_DONTNEED);  // the pages stay in the file, and are no memory of this process
  const auto put = [&](const char* folder, int64_t count, int64_t records) {
    for (int64_t i = 0; i < count; ++i) {
      objects_[fmt::format("{}/part-{:05}.tfrecord", folder, i)] = {.begin = static_cast<uint64_t>(i * framed),
                                                                    .size = static_cast<uint64_t>(records * framed)};
    }
  };
  put("train", size.shards, shard_records);
  put("small", size.small, kSmallRecords);
}

StoreContent::~StoreContent() {
  ::munmap(data_, size_);
  ::close(descriptor_);
}

uint64_t StoreContent::bytes_of(std::string_view prefix) const {
  uint64_t bytes = 0;
  for (const auto& [key, slice] : objects_) bytes += key.starts_with(prefix) ? slice.size : 0;
  return bytes;
}

void ContentStorage::open(const std::string& path, std::shared_ptr<OpenSink> sink) {
  const auto found =
      path.starts_with(root_) ? content_.objects().find(path.substr(root_.size())) : content_.objects().end();
  if (found == content_.objects().end()) {
    return sink->open_done(
        {.error = {.error = {.code = ErrorCode::kIo, .message = "there is no such object", .shard = path},
                   .not_found = true}});
  }
  sink->open_done({.file = std::make_shared<ContentFile>(content_.bytes(found->second))});
}

LocalShards::LocalShards(const StoreContent& content, const std::string& folder)
    : folder_(fmt::format("{}/object_store_bench-{}", folder, ::getpid())) {
  std::filesystem::create_directories(folder_);
  for (const auto& [key, slice] : content.objects()) {
    if (!key.starts_with("train/")) continue;
    std::ofstream file(folder_ + key.substr(key.rfind('/')), std::ios::binary);
    const std::string_view bytes = content.bytes(slice);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!file.flush()) throw ErrorException(ErrorCode::kIo, "cannot write to " + folder_);
  }
}

LocalShards::~LocalShards() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace millrace
