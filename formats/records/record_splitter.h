#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "millrace/formats/columnar/buffer.h"
#include "millrace/formats/error.h"

namespace millrace {

/// A place between two records of a file.
struct FilePlace {
  uint64_t offset = 0;  ///< in the unpacked bytes
  uint64_t record = 0;  ///< records before it
  uint64_t line = 0;    ///< lines before it, where the kind of file counts them
  friend bool operator==(const FilePlace&, const FilePlace&) = default;
};

/// Some records of a file, one after the other. Reuse one object: its arrays keep their memory.
struct CutRecords {
  std::vector<std::string_view> payloads = {};  ///< views into `buffer`
  std::vector<uint64_t> offsets = {};           ///< where each record begins
  std::vector<uint64_t> lines = {};             ///< on which line, from 0; empty where lines are not counted
  uint64_t first_record = 0;                    ///< number of payloads[0] in the file
  Buffer buffer = {};                           ///< keep it as long as the payloads are read

  bool empty() const { return payloads.empty(); }
  size_t size() const { return payloads.size(); }
  void clear() {
    payloads.clear();
    offsets.clear();
    lines.clear();
    buffer = {};
  }
};

/// Knows where the records of one kind of file begin and end: a state machine without I/O, of one run through one file.
class RecordSplitter {
 public:
  RecordSplitter() = default;
  RecordSplitter(const RecordSplitter&) = delete;
  RecordSplitter& operator=(const RecordSplitter&) = delete;
  virtual ~RecordSplitter() = default;

  /// What is wrong with a file of this size, in unpacked bytes, when that is known before any is read.
  virtual std::optional<Error> refuse_size(uint64_t) const { return std::nullopt; }

  /// Adds whole records, at most `max_records` (at least 1), and brings `place` after them. `bytes` are those from
  /// `place` on, which may be written to; all there are when `last`. They begin with those of the last call that were
  /// not used then. Nothing added means that more bytes are needed or, when `last`, that there are no more records. An
  /// error is of the record at `place`, after those that were added, and nothing is read after it.
  virtual std::optional<Error> cut(std::span<char> bytes, bool last, size_t max_records, FilePlace& place,
                                   CutRecords& out) = 0;

  /// Goes past what `cut` has refused: brings `place` to where the next record may begin, and counts the record that
  /// is left out. `bytes` as for `cut`. False: what goes on after them belongs to it too, and `place` is as far as is
  /// known; never when `last`.
  virtual bool pass(std::span<const char> bytes, bool last, FilePlace& place) = 0;
};

}  // namespace millrace
