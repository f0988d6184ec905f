#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "millrace/formats/compression/unpacker.h"
#include "millrace/formats/storage/file_feed.h"

namespace millrace {

/// What the bytes of a compressed file unpack to, as a FileFeed brings them. For the reader's thread only.
class UnpackedFeed {
 public:
  /// `first`: bytes that were taken from the feed before, those that the unpacker begins with.
  UnpackedFeed(std::shared_ptr<FileFeed> feed, Unpacker unpacker, FileFeed::Chunk first = {});

  /// Unpacks to the beginning of `room` as much as has come, and says in `num_filled` how many bytes that are, whatever
  /// it returns. kBytes: the room is full. kNothing: the file has ended, as it should.
  FileFeed::Got fill(std::span<std::byte> room, size_t& num_filled);

  /// After kFailed: the storage's or the unpacker's error, and whether it is one of the content.
  const Error& error() const { return error_; }
  bool error_is_damage() const { return error_is_damage_; }
  /// See Unpacker.
  bool pass_bad_trailer() { return unpacker_.pass_bad_trailer(); }
  uint64_t stream_begin() const { return unpacker_.stream_begin(); }

 private:
  FileFeed::Got damaged();

  std::shared_ptr<FileFeed> feed_;
  Unpacker unpacker_;
  bool holds_bytes_back_ = false;  // the unpacker gives bytes without more input
  FileFeed::Chunk input_;          // what is left of the chunk that is being unpacked
  Error error_;
  bool error_is_damage_ = false;
};

}  // namespace millrace
