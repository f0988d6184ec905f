#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/pipeline/stream_hash.h"

namespace millrace {

/// A file with one line `ordinal hash` for each batch: its number in the stream, from 0, and the digest of that batch
/// alone (`batch_hash`). A line is one write, so a killed process leaves whole lines and at most one torn one at the
/// end, which the next run drops. A run that goes on from a state writes the lines after it, also where a killed run
/// had written them already: lines of one number must be equal.
class HashLog {
 public:
  /// Appends to the file, or makes it anew when `resumed` is false. Throws `kIo`, and `kParse` for a file that is no
  /// hash log.
  HashLog(std::string path, bool resumed);
  ~HashLog();
  HashLog(const HashLog&) = delete;
  HashLog& operator=(const HashLog&) = delete;

  void add(int64_t ordinal, uint64_t hash);
  /// The digest of the first `count` batches, when the log had a line for each of them as it was opened; else nothing.
  std::optional<StreamHash> stream_of(int64_t count) const;

 private:
  [[noreturn]] void fail(const char* what) const;

  const std::string path_;
  int descriptor_ = -1;
  std::vector<uint64_t> hashes_;  // of the batches from 0 on that had lines
};

}  // namespace millrace
