#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "millrace/formats/records/skipped_region.h"
#include "millrace/formats/storage/growing_file.h"

namespace millrace {

/// A file with one line, a JSON object, for each part of a shard that was left out: the list beside a pipeline's state,
/// which holds counts only. It is made with the first line, and a line is one write; a run that goes on from a state
/// keeps as many lines as that state counts, so that the list is that of a run that was never stopped. One thread at a
/// time.
///
///     {"number":0,"shard":"data/a.tfrecord","begin":1040,"end":2401,"first_record":17,"records":1,"epoch":0,
///      "code":"payload_crc","reason":"…"}
class SkippedLog {
 public:
  /// `num_regions`: the lines to keep of a file that is there. Throws `kIo`, and `kState` when it has fewer.
  SkippedLog(std::string path, int64_t num_regions);

  /// Throws `kIo`.
  void add(const SkippedRegion& region);

 private:
  const std::string path_;
  int64_t num_regions_;
  std::optional<GrowingFile> file_;  // none: not made yet
};

}  // namespace millrace
