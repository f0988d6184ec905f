#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/formats/compression/frame_table.h"
#include "millrace/formats/storage/file_feed.h"

namespace millrace {

/// Reads the seek table at the end of a zstd file through its feed, without ever blocking. Nothing else may be asked of
/// the feed meanwhile; afterwards it must be sent to where reading goes on (`FileFeed::seek`). For the reader's thread.
class FrameTableReader {
 public:
  explicit FrameTableReader(std::shared_ptr<FileFeed> feed);

  /// kBytes: it is known what there is. kFailed: the storage failed, see the feed's error.
  FileFeed::Got read();
  /// The same, where all of the file is at hand.
  void read_from(std::string_view whole_file);

  /// Null when there is no seek table, or `problem`.
  const std::shared_ptr<const FrameTable>& table() const { return table_; }
  /// Why a seek table that is there cannot be used.
  const std::optional<std::string>& problem() const { return problem_; }

 private:
  size_t look_at(std::string_view end, uint64_t file_bytes);

  std::shared_ptr<FileFeed> feed_;
  size_t wanted_;
  std::shared_ptr<const FrameTable> table_;
  std::optional<std::string> problem_;
};

}  // namespace millrace
