#include "millrace/formats/tfrecord/resync.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace millrace::resync_test {
namespace {

SeekPoint point_at(uint64_t offset) { return {.bit = 8 * offset / 10, .offset = offset, .stream_begin = offset / 10}; }

// Records that begin at these offsets, the last of them where the shard ends, and seek points at those.
std::shared_ptr<const ShardIndex> index_of(const std::vector<uint64_t>& records, const std::vector<uint64_t>& points) {
  ShardIndex::Parts parts{.fingerprint = {}, .compression = Compression::kGzip, .entries = {}, .points = {}};
  for (const uint64_t offset : records) parts.entries.push_back(ShardIndex::entry(offset, 0));
  for (const uint64_t offset : points) parts.points.push_back(point_at(offset));
  return std::make_shared<const ShardIndex>(std::move(parts));
}

// Ten records of a hundred bytes.
std::shared_ptr<const ShardIndex> ten_records(const std::vector<uint64_t>& points) {
  return index_of({0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000}, points);
}

std::shared_ptr<const FrameTable> frames_of(const std::vector<FrameTable::Entry>& entries) {
  const std::string end = serialize_frame_table(entries);
  uint64_t file_bytes = end.size();
  for (const FrameTable::Entry& entry : entries) file_bytes += entry.packed_bytes;
  return std::make_shared<const FrameTable>(FrameTable::parse(end, file_bytes));
}

// Frames at bytes 0, 50, 100 and 150 of the file that unpack to 300 bytes each; a record reaches over the third one.
std::shared_ptr<const FrameTable> four_frames() {
  return frames_of({{50, 300, 3}, {50, 300, 3}, {50, 300, 0}, {50, 300, 2}});
}

RecordFault damage(uint64_t record, uint64_t begin, ErrorCode code, bool can_continue = true) {
  return {.error = {.code = code, .record = static_cast<int64_t>(record)},
          .can_continue = can_continue,
          .begin = begin,
          .end = begin + 100};
}
RecordFault bad_payload(uint64_t record) { return damage(record, record * 100, ErrorCode::kPayloadCrc); }
RecordFault bad_length(uint64_t record) { return damage(record, record * 100, ErrorCode::kLengthCrc); }

TEST(Resync, GoesOnAnewWithTheFirstRecordAfterTheNextSeekPoint) {
  const KnownPlaces known{.index = ten_records({250, 650}), .frames = nullptr};
  Resync resync(known, Compression::kGzip);
  EXPECT_EQ(resync.num_before(0), UINT64_MAX);
  EXPECT_FALSE(resync.take_due(0));
  resync.resync_after(120);
  EXPECT_EQ(resync.num_before(1), 2U);
  EXPECT_FALSE(resync.take_due(2));
  EXPECT_EQ(resync.num_before(2), 1U);
  const auto place = resync.take_due(3);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->point, point_at(250));
  EXPECT_EQ(place->next, (RecordPosition{300, 3}));
  EXPECT_FALSE(resync.take_due(3));
  EXPECT_EQ(resync.num_before(3), UINT64_MAX);
}

TEST(Resync, DoesNotGoOnAnewWhereTheReaderIsPastThat) {
  const KnownPlaces known{.index = ten_records({250}), .frames = nullptr};
  Resync resync(known, Compression::kZlib);
  resync.resync_after(120);
  EXPECT_FALSE(resync.take_due(4));
  EXPECT_EQ(resync.num_before(4), UINT64_MAX);
  resync.resync_after(120);
  resync.cancel();
  EXPECT_FALSE(resync.take_due(3));
}

TEST(Resync, TrustsWhatComesAfterTheLastSeekPoint) {
  const KnownPlaces known{.index = ten_records({250, 950}), .frames = nullptr};
  Resync resync(known, Compression::kGzip);
  resync.resync_after(950);
  EXPECT_EQ(resync.num_before(9), UINT64_MAX);
  resync.resync_after(900);  // no record begins after the one at 950
  EXPECT_EQ(resync.num_before(9), UINT64_MAX);
}

TEST(Resync, PassesADamagedRecordAndTrustsNothingUpToTheNextSeekPoint) {
  const KnownPlaces known{.index = ten_records({250, 650}), .frames = nullptr};
  Resync resync(known, Compression::kGzip);
  EXPECT_TRUE(resync.passes(bad_payload(1)));
  EXPECT_EQ(resync.num_before(2), 1U);
  EXPECT_TRUE(resync.passes(bad_payload(2)));  // the same damage
  EXPECT_EQ(resync.num_before(3), 0U);
  EXPECT_TRUE(resync.take_due(3));
  EXPECT_TRUE(resync.passes(bad_payload(3)));
  EXPECT_EQ(resync.num_before(4), 3U);
}

TEST(Resync, PassesABadLengthOnlyWhereTheNextOneIsGood) {
  const KnownPlaces known{.index = ten_records({650}), .frames = nullptr};
  Resync resync(known, Compression::kGzip);
  EXPECT_TRUE(resync.passes(bad_length(1)));
  EXPECT_TRUE(resync.passes(bad_length(3)));
  EXPECT_TRUE(resync.passes(bad_payload(4)));
  EXPECT_TRUE(resync.passes(bad_length(5)));
  EXPECT_FALSE(resync.passes(bad_length(6)));
  EXPECT_FALSE(resync.passes(damage(8, 800, ErrorCode::kPayloadCrc, /*can_continue=*/false)));
}

TEST(Resync, TrustsWhatAZstdFrameUnpacksTo) {
  const KnownPlaces known{.index = ten_records({250, 650}), .frames = nullptr};
  Resync resync(known, Compression::kZstd);
  EXPECT_TRUE(resync.passes(bad_payload(1)));
  EXPECT_EQ(resync.num_before(2), UINT64_MAX);
}

TEST(Resync, GoesOnAtTheNextSeekPointWhereUnpackingFailed) {
  const KnownPlaces known{.index = ten_records({250, 650}), .frames = nullptr};
  Resync resync(known, Compression::kGzip);
  resync.resync_after(0);
  EXPECT_EQ(resync.end_of_bad_frame(bad_payload(1), 0, 170), 101U);
  const auto place = resync.next_place(101, {100, 1});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->point, point_at(250));
  EXPECT_EQ(place->next, (RecordPosition{300, 3}));
  EXPECT_EQ(resync.num_before(1), UINT64_MAX);  // what was planned lies before it
  EXPECT_FALSE(resync.next_place(651, {600, 6}));
}

TEST(Resync, EntersALongRecordsSuccessorAtTheLastSeekPointBeforeIt) {
  const KnownPlaces known{.index = index_of({0, 100, 900, 1000}, {350, 650, 950}), .frames = nullptr};
  Resync resync(known, Compression::kGzip);
  const auto place = resync.next_place(101, {100, 1});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->point, point_at(650));
  EXPECT_EQ(place->next, (RecordPosition{900, 2}));
  EXPECT_FALSE(resync.next_place(901, {900, 2}));  // at 950 no record begins any more
}

TEST(Resync, GoesOnWithTheNextFrameThatBeginsARecord) {
  const KnownPlaces known{.index = nullptr, .frames = four_frames()};
  Resync resync(known, Compression::kZstd);
  auto place = resync.next_place(1, {100, 1});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->point, FrameTable::point(known.frames->frames()[1]));
  EXPECT_EQ(place->next, (RecordPosition{300, 3}));
  place = resync.next_place(301, {400, 4});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->point, FrameTable::point(known.frames->frames()[3]));
  EXPECT_EQ(place->next, (RecordPosition{900, 6}));
  EXPECT_FALSE(resync.next_place(901, {1000, 7}));
  // More records were read than there should be: the numbers are those of another file.
  EXPECT_FALSE(resync.next_place(301, {500, 7}));
}

TEST(Resync, FindsRecordsByTheIndexWhereFramesDoNotCountThem) {
  // In the frames of another writer a record may begin anywhere.
  const KnownPlaces known{.index = ten_records({}), .frames = frames_of({{50, 250, 0}, {50, 250, 0}, {50, 500, 0}})};
  Resync resync(known, Compression::kZstd);
  auto place = resync.next_place(1, {100, 1});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->point, FrameTable::point(known.frames->frames()[1]));
  EXPECT_EQ(place->next, (RecordPosition{300, 3}));
  // After what the reader has given already: only what follows is wanted.
  place = resync.next_place(1, {400, 4});
  ASSERT_TRUE(place);
  EXPECT_EQ(place->point, FrameTable::point(known.frames->frames()[1]));
  EXPECT_EQ(place->next, (RecordPosition{400, 4}));
  EXPECT_FALSE(resync.next_place(501, {600, 6}));
}

TEST(Resync, WantsTheFrameAfterTheBadOne) {
  const KnownPlaces known{.index = nullptr, .frames = four_frames()};
  Resync resync(known, Compression::kZstd);
  EXPECT_EQ(resync.end_of_bad_frame(bad_payload(3), 50, 450), 301U);
  // No frame of the table begins there, or one that lies ahead: the one that should have come is wanted, once.
  EXPECT_EQ(resync.end_of_bad_frame(bad_payload(3), 77, 600), 600U);
  EXPECT_EQ(resync.end_of_bad_frame(bad_payload(3), 150, 600), 600U);
  resync.entered(600);
  EXPECT_EQ(resync.end_of_bad_frame(bad_payload(3), 77, 600), 601U);
}

TEST(KnownPlaces, EndWhereTheIndexOrTheFramesSay) {
  EXPECT_TRUE(KnownPlaces().empty());
  EXPECT_FALSE(KnownPlaces().end());
  const KnownPlaces both{.index = ten_records({}), .frames = four_frames()};
  EXPECT_FALSE(both.empty());
  EXPECT_EQ(both.end(), (RecordPosition{1000, 10}));
  EXPECT_EQ((KnownPlaces{.index = nullptr, .frames = both.frames}.end()), (RecordPosition{1200, 8}));
}

TEST(LoseUpTo, CountsTheRecordsFromTheFaultyOneOn) {
  RecordFault fault = bad_payload(3);
  fault.end_is_known = false;
  lose_up_to({700, 7}, fault);
  EXPECT_EQ(fault.end, 700U);
  EXPECT_TRUE(fault.end_is_known);
  EXPECT_EQ(fault.num_records_lost, 4U);
  lose_up_to({200, 2}, fault);  // never less than nothing
  EXPECT_EQ(fault.end, 300U);
  EXPECT_EQ(fault.num_records_lost, 0U);
}

}  // namespace
}  // namespace millrace::resync_test
