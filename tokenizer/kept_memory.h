#pragma once

#include <cstddef>
#include <vector>

namespace millrace {

/// Of each buffer that a thread keeps as work space from one text to the next.
inline constexpr size_t kMostKeptBytes = size_t{4} << 20;

/// Frees the memory of a string or a vector that has more than a thread should keep, as after one huge text. Its
/// elements are lost then.
template <typename Buffer>
void free_large(Buffer& buffer) {
  if (buffer.capacity() * sizeof(typename Buffer::value_type) > kMostKeptBytes) Buffer().swap(buffer);
}

/// One use of a vector that a thread keeps as work space: at its end `free_large`.
template <typename Value>
class KeptMemoryUse {
 public:
  explicit KeptMemoryUse(std::vector<Value>& kept) : kept_(kept) {}
  ~KeptMemoryUse() { free_large(kept_); }
  KeptMemoryUse(const KeptMemoryUse&) = delete;
  KeptMemoryUse& operator=(const KeptMemoryUse&) = delete;

 private:
  std::vector<Value>& kept_;
};

}  // namespace millrace
