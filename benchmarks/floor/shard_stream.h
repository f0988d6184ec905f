#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "benchmarks/floor/schedule.h"

namespace millrace {

/// A file that is open for as long as a floor lives.
class OpenShard {
 public:
  /// Throws `kIo`.
  explicit OpenShard(std::string path);
  ~OpenShard();
  OpenShard(const OpenShard&) = delete;
  OpenShard& operator=(const OpenShard&) = delete;

  /// Fills `destination` from `offset` on, less only where the file ends; returns how much.
  size_t read(uint64_t offset, std::span<std::byte> destination) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int descriptor_;
};

/// The unpacked bytes of a compressed shard, from the beginning on. It takes its memory with the first bytes and gives
/// it back with `close`.
class UnpackedShard {
 public:
  /// Fills `destination` with the bytes that follow. Throws what is wrong with the file.
  void read(const OpenShard& file, Compression compression, std::span<std::byte> destination);
  void close() { state_.reset(); }

 private:
  struct State;
  struct Delete {
    void operator()(State* state) const;
  };
  std::unique_ptr<State, Delete> state_;
};

/// Checks both CRCs of the frame at `frame` and gives its payload. Throws when it is not the record
/// that was there as the schedule was made.
[[nodiscard]] std::string_view checked_payload(const std::byte* frame, const ScheduledRecord& expected,
                                               const std::string& path);

}  // namespace millrace
