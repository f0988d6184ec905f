#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace millrace {

/// How many slots of a segment's ring may be in use while blocks are large. Small ones take them all: what absorbs the
/// differences between their times costs nothing. A large one ahead costs its memory, so there are only as many as give
/// the workers something to do.
///
/// Bodies that go through their blocks at the speed of memory need few of them side by side; slow ones need every
/// worker. Any thread.
class LargeBlockLimit {
 public:
  /// From this size on a block is large.
  static constexpr int64_t kLargeBlock = int64_t{1} << 20;
  /// Bodies that take longer are slow: below 1 GB/s.
  static constexpr int64_t kSlowNanosecondsPerByte = 1;

  struct Options {
    int64_t bytes = INT64_MAX;  ///< that large blocks may take together. Default: no limit
    size_t slots = 1;           ///< which they may use all the same. Default: 1
    size_t slots_of_slow = 1;   ///< which they may use all the same where bodies are slow. Default: 1
  };

  explicit LargeBlockLimit(const Options& options) : options_(options) {}

  /// Bytes of the last block, -1 before the first.
  int64_t bytes_of_last() const { return bytes_.load(std::memory_order_relaxed); }
  bool is_large() const { return bytes_of_last() >= kLargeBlock; }
  /// A block was made, in `nanoseconds` of a body; 0: not known.
  void made(int64_t bytes, int64_t nanoseconds);
  /// A block is on its way to its body: the first one is taken to become as large as it is.
  void expect(int64_t bytes);
  /// Of `all` slots those that may be in use.
  [[nodiscard]] size_t usable(size_t all) const;

 private:
  Options options_;
  std::atomic<int64_t> bytes_{-1};
  std::atomic<int64_t> expected_{-1};  // until then
  std::atomic<bool> slow_{false};
};

}  // namespace millrace
