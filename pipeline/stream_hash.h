#pragma once

#include <cstdint>
#include <string>

#include "millrace/pipeline/pipeline.h"

namespace millrace {

/// A digest of one batch alone: XXH3 (64 bits) of its features in order of their names, each with name, dtype, shape
/// and values; a `bytes` value with its length before it.
[[nodiscard]] uint64_t batch_hash(const Batch& batch);

/// A digest of a stream of batches, in order. Equal streams have equal digests whatever threads ran.
class StreamHash {
 public:
  void add(const Batch& batch) { add(batch_hash(batch)); }
  void add(uint64_t batch_hash);
  /// 16 hex digits over all batches so far.
  std::string hex() const;

 private:
  uint64_t state_ = 0;
};

}  // namespace millrace
