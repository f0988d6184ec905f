#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/formats/storage/storage.h"

namespace millrace {

/// How large the objects are.
struct ContentSize {
  int64_t shards = 64;
  int64_t shard_bytes = 64 << 20;  ///< at most; whole records
  int64_t record_bytes = 1024;     ///< of a payload
  int64_t small = 10'000;          ///< further shards, of 128 records
};

/// Objects of TFRecords, all of them slices of one sequence of pseudo-random records, each from another record on: the
/// same in every process. `train/part-00000.tfrecord` …, `small/part-00000.tfrecord` ….
class StoreContent {
 public:
  struct Slice {
    uint64_t begin = 0;  ///< of `bytes`
    uint64_t size = 0;
  };

  explicit StoreContent(const ContentSize& size);
  ~StoreContent();
  StoreContent(const StoreContent&) = delete;
  StoreContent& operator=(const StoreContent&) = delete;

  [[nodiscard]] std::string_view bytes() const { return {data_, size_}; }
  /// Of a file in memory that has `bytes`.
  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// By their keys.
  [[nodiscard]] const std::map<std::string, Slice>& objects() const { return objects_; }
  [[nodiscard]] std::string_view bytes(const Slice& slice) const { return bytes().substr(slice.begin, slice.size); }
  /// Of the objects whose keys begin so.
  [[nodiscard]] uint64_t bytes_of(std::string_view prefix) const;

 private:
  int descriptor_ = -1;
  char* data_ = nullptr;
  size_t size_ = 0;
  std::map<std::string, Slice> objects_;
};

/// The objects as files, whose paths are URLs that end in `/KEY`: what they ought to be, without a server. Answers
/// inside each call.
class ContentStorage final : public Storage {
 public:
  /// `content` must outlive it and its files. `root`: of the paths, before the key.
  ContentStorage(const StoreContent& content, std::string root) : content_(content), root_(std::move(root)) {}
  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override;
  [[nodiscard]] std::vector<std::string> glob(const std::string&) override { return {}; }

 private:
  const StoreContent& content_;
  const std::string root_;
};

/// The shards `train/` as files in a folder of their own below `folder`, as long as this is there.
class LocalShards {
 public:
  LocalShards(const StoreContent& content, const std::string& folder);
  ~LocalShards();
  LocalShards(const LocalShards&) = delete;
  LocalShards& operator=(const LocalShards&) = delete;
  [[nodiscard]] std::string pattern() const { return folder_ + "/*.tfrecord"; }

 private:
  const std::string folder_;
};

}  // namespace millrace
