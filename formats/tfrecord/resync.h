#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "millrace/formats/compression/compression.h"
#include "millrace/formats/compression/frame_table.h"
#include "millrace/formats/compression/seek_point.h"
#include "millrace/formats/tfrecord/index/index.h"
#include "millrace/formats/tfrecord/reader.h"

namespace millrace {

/// What says where the records of a shard are. Either may be null.
struct KnownPlaces {
  std::shared_ptr<const ShardIndex> index;
  std::shared_ptr<const FrameTable> frames;  ///< of a zstd shard that has a seek table

  bool empty() const { return index == nullptr && frames == nullptr; }
  /// Where the last record ends, if that is known.
  std::optional<RecordPosition> end() const;
};

/// Says in a fault that the records from the faulty one up to `next` are lost, and no more.
void lose_up_to(RecordPosition next, RecordFault& fault);

/// What is done after damage in a compressed shard: which of the unpacked bytes are still trusted, and where reading
/// goes on. It decides and reads nothing; offsets count unpacked bytes. One thread at a time.
///
/// A damaged record may have been so before it was compressed: then the next one is where the index says. Or the
/// compressed bytes are damaged: then nothing that is unpacked can be trusted up to the next seek point, and whatever
/// passes its checks on the way there is good. What a zstd frame unpacks to was checked before.
class Resync {
 public:
  /// Unpacking begins at the point, and `next` is the first whole record from there.
  struct Place {
    SeekPoint point;
    RecordPosition next;
  };

  /// `known` must outlive it; what turns out to be wrong may be taken out of it. With neither index nor frames left
  /// there is nothing to decide: only `take_due`, `num_before` and `cancel` may be called then.
  Resync(const KnownPlaces& known, Compression compression) : known_(known), compression_(compression) {}

  /// What is unpacked after this byte is not trusted up to the next seek point of the index: reading goes on there
  /// anew, with the first record after it.
  void resync_after(uint64_t offset);
  /// It is trusted again.
  void cancel() { resync_at_.reset(); }
  /// The place to go on at when the reader gives record `record` next, where that is due.
  std::optional<Place> take_due(uint64_t record);
  /// How many records from `record` on may be given before that.
  uint64_t num_before(uint64_t record) const { return resync_at_ ? resync_at_->record - record : UINT64_MAX; }

  /// Whether reading goes on with the record after one that is damaged; else at the `next_place` after its beginning.
  bool passes(const RecordFault& fault);
  /// From which byte on a place is wanted when unpacking failed in the stream that begins at byte `stream_begin` of the
  /// file, with `next_byte` as the next one: after the bad frame, or, where what failed is none of the table's, the
  /// one that should have been there.
  uint64_t end_of_bad_frame(const RecordFault& fault, uint64_t stream_begin, uint64_t next_byte) const;
  /// The first place to go on at this byte or after it for a reader that has come to `position`. All that was not
  /// trusted lies before it.
  std::optional<Place> next_place(uint64_t offset, RecordPosition position);
  /// Unpacking has begun anew at this byte.
  void entered(uint64_t offset) { entered_ = offset; }

 private:
  std::optional<Place> next_frame(uint64_t offset, RecordPosition position) const;

  const KnownPlaces& known_;
  const Compression compression_;
  // The first record after the next seek point, from which on damage in what was unpacked before means nothing any
  // more.
  std::optional<RecordPosition> resync_at_;
  std::optional<uint64_t> skipped_to_;  // the record that the last bad length was followed by
  std::optional<uint64_t> entered_;     // where the last place began that was gone on at
};

}  // namespace millrace
