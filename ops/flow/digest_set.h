#pragma once

#include <cstdint>

#include "millrace/formats/columnar/buffer.h"

namespace millrace {

/// 128 bits that stand for a value.
struct Digest {
  uint64_t low = 0;
  uint64_t high = 0;
  friend bool operator==(const Digest&, const Digest&) = default;
};

/// A set of digests in a table of a pool's memory: 16 B for each place, at most three quarters of them taken. One
/// thread at a time.
class DigestSet {
 public:
  /// `most_bytes`: that the table may take, with the one before while it grows.
  DigestSet(BufferPool& pool, int64_t most_bytes) : pool_(pool), most_bytes_(most_bytes) {}

  enum class Insert {
    kNew,    ///< it was not there
    kThere,  ///< it was
    kFull,   ///< it is not there, and there is no memory for it
  };
  Insert insert(Digest digest);
  uint64_t size() const { return size_; }
  /// Of the table.
  int64_t bytes() const { return static_cast<int64_t>(capacity_ * sizeof(Digest)); }

 private:
  Digest* places() { return reinterpret_cast<Digest*>(table_->data()); }
  bool grow();

  BufferPool& pool_;
  int64_t most_bytes_;
  Buffer table_;           // of `capacity_` digests; one that is 0 is an empty place
  uint64_t capacity_ = 0;  // 0 or a power of two
  uint64_t size_ = 0;
};

}  // namespace millrace
