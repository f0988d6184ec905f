#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "formats/compression/inflate.h"
#include "formats/storage/file_feed.h"

namespace millrace {

/// What the bytes of a compressed file unpack to, as a FileFeed brings them. For the reader's thread only.
class UnpackedFeed {
 public:
  /// `first`: bytes that were taken from the feed before, those that the inflater begins with.
  UnpackedFeed(std::shared_ptr<FileFeed> feed, Inflater inflater, FileFeed::Chunk first = {});

  /// Unpacks to the beginning of `room` as much as has come, and says in `num_filled` how many bytes that are, whatever
  /// it returns. kBytes: the room is full. kNothing: the file has ended, as it should.
  FileFeed::Got fill(std::span<std::byte> room, size_t& num_filled);

  /// After kFailed: the storage's or the inflater's error, and whether it is one of the content.
  const Error& error() const { return error_; }
  bool error_is_damage() const { return error_is_damage_; }
  /// See Inflater.
  bool pass_bad_trailer() { return inflater_.pass_bad_trailer(); }

 private:
  FileFeed::Got damaged();

  std::shared_ptr<FileFeed> feed_;
  Inflater inflater_;
  bool holds_bytes_back_ = false;  // the inflater gives bytes without more input
  FileFeed::Chunk input_;          // what is left of the chunk that is being unpacked
  Error error_;
  bool error_is_damage_ = false;
};

}  // namespace millrace
