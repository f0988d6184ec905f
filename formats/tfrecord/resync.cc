#include "millrace/formats/tfrecord/resync.h"

#include <algorithm>
#include <utility>

namespace millrace {

std::optional<RecordPosition> KnownPlaces::end() const {
  if (index) return RecordPosition{index->num_bytes(), index->num_records()};
  if (frames && frames->num_records()) return RecordPosition{frames->num_bytes(), *frames->num_records()};
  return std::nullopt;
}

void lose_up_to(RecordPosition next, RecordFault& fault) {
  fault.end = std::max(next.offset, fault.begin);
  fault.end_is_known = true;
  fault.num_records_lost = next.record - std::min(next.record, static_cast<uint64_t>(fault.error.record));
}

void Resync::resync_after(uint64_t offset) {
  const SeekPoint* const point = known_.index->point_after(offset);
  if (point == nullptr) return;
  const RecordPosition next = known_.index->first_from(point->offset);
  if (next.record < known_.index->num_records()) resync_at_ = next;
}

std::optional<Resync::Place> Resync::take_due(uint64_t record) {
  if (!resync_at_ || record < resync_at_->record) return std::nullopt;
  const RecordPosition next = *std::exchange(resync_at_, std::nullopt);
  if (next.record != record) return std::nullopt;
  return Place{*known_.index->point_before(next.offset), next};
}

bool Resync::passes(const RecordFault& fault) {
  const auto record = static_cast<uint64_t>(fault.error.record);
  const bool length_is_bad = fault.error.code != ErrorCode::kPayloadCrc;
  if (!fault.can_continue || (length_is_bad && skipped_to_ == record)) return false;
  if (length_is_bad) skipped_to_ = record + 1;
  if (!resync_at_ && compression_ != Compression::kZstd) resync_after(fault.begin);
  return true;
}

uint64_t Resync::end_of_bad_frame(const RecordFault& fault, uint64_t stream_begin, uint64_t next_byte) const {
  if (!known_.frames) return fault.begin + 1;
  const FrameTable::Frame* const bad = known_.frames->frame_at(stream_begin);
  if (bad != nullptr && bad->offset <= next_byte) return bad->offset + 1;
  // Where that was entered already, it is not there.
  const bool was_entered = entered_ && *entered_ >= next_byte;
  return was_entered ? *entered_ + 1 : next_byte;
}

std::optional<Resync::Place> Resync::next_place(uint64_t offset, RecordPosition position) {
  resync_at_.reset();
  skipped_to_.reset();
  if (known_.frames) return next_frame(offset, position);
  const ShardIndex& index = *known_.index;
  const SeekPoint* const point = index.point_after(offset - 1);
  if (point == nullptr) return std::nullopt;
  const RecordPosition next = index.first_from(point->offset);
  if (next.record >= index.num_records()) return std::nullopt;
  // A long record may reach over several seek points.
  return Place{*index.point_before(next.offset), next};
}

std::optional<Resync::Place> Resync::next_frame(uint64_t offset, RecordPosition position) const {
  const FrameTable& frames = *known_.frames;
  for (const FrameTable::Frame& frame : frames.frames_from(offset)) {
    if (known_.index) {
      // A long record may reach over several frames.
      const RecordPosition next = known_.index->first_from(frame.offset);
      if (next.record >= known_.index->num_records()) return std::nullopt;
      return Place{FrameTable::point(frames.frame_with(next.offset)), next.record < position.record ? position : next};
    }
    if (!frames.num_records()) return std::nullopt;  // which record comes first is not known
    if (!FrameTable::begins_a_record(frame)) continue;
    // Fewer than were read: the numbers are not those of this file.
    if (frame.record < position.record) return std::nullopt;
    return Place{FrameTable::point(frame), {frame.offset, frame.record}};
  }
  return std::nullopt;
}

}  // namespace millrace
