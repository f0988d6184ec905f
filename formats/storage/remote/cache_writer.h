#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/cache_block.h"

namespace millrace {

/// The disk is full, or there is no more room for this user.
class NoRoomError final : public ErrorException {
 public:
  using ErrorException::ErrorException;
};

/// Makes files of blocks from what comes of objects, in any order and in any pieces. Until a block is whole its file
/// has no name, so that nothing is left of it however the process ends; where a file system knows no such files, a
/// temporary one. One thread.
class CacheWriter {
 public:
  explicit CacheWriter(std::string folder) : folder_(std::move(folder)) {}
  /// What is not whole is removed.
  ~CacheWriter();
  CacheWriter(const CacheWriter&) = delete;
  CacheWriter& operator=(const CacheWriter&) = delete;

  /// Bytes of a block from `offset` in it on. Gives the bytes of its file when it is whole with them, and 0 where
  /// somebody has removed what had come of it, which is given up then. Throws `kIo`, NoRoomError among them, and the
  /// block is given up, too.
  std::optional<uint64_t> write(const CacheObject& object, uint64_t block, uint64_t offset,
                                std::span<const std::byte> bytes);
  /// Gives up what has come of a block, if anything has.
  void drop(const CacheObject& object, uint64_t block);

 private:
  struct Unfinished {
    std::string path = {};  // empty: it has no name
    int descriptor = -1;
    std::map<uint64_t, uint64_t> covered = {};       // ends by begins: what has come of it
    std::vector<std::optional<uint32_t>> crcs = {};  // of its pieces; nothing: it did not come as a whole
  };
  using Place = std::map<std::string, Unfinished>::iterator;

  Place unfinished(const CacheObject& object, uint64_t block);
  uint64_t finish(const CacheObject& object, uint64_t block, Place place);
  void give_name(Unfinished& file) const;
  void remove(Place place);

  const std::string folder_;
  std::map<std::string, Unfinished> unfinished_;  // by the path of the block
};

}  // namespace millrace
