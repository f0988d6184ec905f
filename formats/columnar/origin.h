#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/columnar/buffer.h"

namespace millrace {

struct Error;

/// The names of the shards that the rows of a pipeline come from, by number. A name keeps its number, so epochs add
/// nothing. Any thread; looked into only when an error is made.
class ShardNames {
 public:
  /// The number of a shard.
  uint32_t add(const std::string& name);
  std::string name(uint32_t number) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, uint32_t, std::less<>> numbers_;
  std::vector<std::string> names_;
};

/// Where a row comes from, in 16 bytes: a record of a shard. Rows that come from no record have an unknown one, and so
/// have those beyond 2^24 - 1 shards or 2^40 records in a shard: what they miss is the place in a message.
class Origin {
 public:
  Origin() = default;
  /// `offset`: byte in the shard (in the uncompressed bytes of a compressed one). `record`: index in the shard.
  Origin(uint32_t shard, uint64_t offset, uint64_t record)
      : offset_(offset),
        shard_and_record_(shard < kMostShards && record < kMostRecords ? (uint64_t{shard} + 1) << kRecordBits | record
                                                                       : 0) {}
  bool is_known() const { return shard_and_record_ != 0; }
  uint32_t shard() const { return static_cast<uint32_t>((shard_and_record_ >> kRecordBits) - 1); }
  uint64_t offset() const { return offset_; }
  uint64_t record() const { return shard_and_record_ & (kMostRecords - 1); }

 private:
  static constexpr int kRecordBits = 40;
  static constexpr uint64_t kMostRecords = uint64_t{1} << kRecordBits;
  static constexpr uint32_t kMostShards = (uint32_t{1} << (64 - kRecordBits)) - 1;

  uint64_t offset_ = 0;
  uint64_t shard_and_record_ = 0;  // the shard's number + 1 above, the record below; 0: unknown
};

/// The origins of the rows of a block, or nothing. Copies and slices share the memory.
class Origins {
 public:
  Origins() = default;
  /// Of `count` rows, all to be filled in by the caller through `mutable_data()`.
  Origins(BufferPool& pool, std::shared_ptr<const ShardNames> names, size_t count);

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  const Origin* data() const { return data_; }
  Origin* mutable_data() { return data_; }
  /// Only when there are origins.
  const std::shared_ptr<const ShardNames>& names() const { return memory_->names; }

  [[nodiscard]] Origins slice(size_t first, size_t count) const;
  /// Puts the place of a row into an error that names none yet; nothing where the origin is not known.
  void locate(size_t row, Error& error) const;

 private:
  // A buffer, and the names that keep the numbers in it meaningful after the pipeline is gone.
  struct Memory final : Resource {
    Memory(Buffer memory, std::shared_ptr<const ShardNames> shard_names)
        : buffer(std::move(memory)), names(std::move(shard_names)) {}
    void release() noexcept override { delete this; }
    const Buffer buffer;
    const std::shared_ptr<const ShardNames> names;
  };

  Ref<Memory> memory_;
  Origin* data_ = nullptr;
  size_t size_ = 0;
};

/// Gathers the origins of a block's rows while a BlockBuilder gathers its elements. Costs nothing as long as no element
/// has any; elements without get unknown ones as soon as one has.
class OriginsBuilder {
 public:
  explicit OriginsBuilder(BufferPool& pool) : pool_(&pool) {}

  /// Whether any row so far has an origin.
  bool started() const { return rows_ > 0; }
  /// Origins for the elements that come next: `rows` for each, `elements` elements are in the block before them.
  void append(const Origin* first, size_t count, size_t rows, const std::shared_ptr<const ShardNames>& names,
              size_t elements) {
    if (used_ != elements * rows || used_ + count > capacity_ || rows != rows_ || names != names_) [[unlikely]] {
      if (!make_ready(count, rows, names, elements)) return;
    }
    Origin* place = data_ + used_;
    used_ += count;
    if (count == 1) {
      *place = *first;
    } else {
      copy(first, count, place);
    }
  }
  /// Forgets the origins of all elements but the first `elements`.
  void truncate(size_t elements);
  /// The origins of `elements` elements; the builder is empty again.
  [[nodiscard]] Origins finish(size_t elements);
  /// Those of the first `first` of `elements`; the others stay.
  [[nodiscard]] Origins split(size_t first, size_t elements);

 private:
  bool make_ready(size_t count, size_t rows, const std::shared_ptr<const ShardNames>& names, size_t elements);
  void reserve(size_t count);
  void pad(size_t elements);
  static void copy(const Origin* from, size_t count, Origin* to);

  BufferPool* pool_;
  std::shared_ptr<const ShardNames> names_;
  Origins memory_;  // as large as the capacity
  Origin* data_ = nullptr;
  size_t capacity_ = 0;
  size_t used_ = 0;
  size_t last_used_ = 0;  // by the block before: what the next one will need
  size_t rows_ = 0;       // of each element; 0: no element has an origin
};

}  // namespace millrace
