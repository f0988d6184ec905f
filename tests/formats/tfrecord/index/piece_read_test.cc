#include "millrace/formats/tfrecord/index/piece_read.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/manual_storage.h"
#include "tests/support/memory_storage.h"

namespace millrace::piece_read_test {
namespace {

using ::testing::HasSubstr;
using Done = std::vector<std::shared_ptr<PieceRead>>;

/// A file `shard` of 20 bytes, asked for bytes 5 to 15 unless a test says otherwise.
class PieceReadTest : public testing::Test {
 protected:
  PieceReadTest() { memory_.add("shard", "0123456789abcdefghij"); }

  std::shared_ptr<PieceRead> read_of(uint64_t begin = 5, uint64_t end = 15, uint64_t bytes_of_file = 20) {
    const RecordPiece piece{.count = 2, .begin = begin, .end = end};
    return std::make_shared<PieceRead>(inbox_, piece, pool_.allocate(end - begin + 3), 3, bytes_of_file);
  }
  // The read that is in the inbox, alone.
  std::shared_ptr<PieceRead> take() {
    Done done;
    EXPECT_TRUE(inbox_->take(done, false));
    EXPECT_EQ(done.size(), 1U);
    return done.empty() ? nullptr : done[0];
  }
  static std::string_view bytes_of(const PieceRead& read) {
    return {reinterpret_cast<const char*>(read.data()), static_cast<size_t>(read.piece.end - read.piece.begin)};
  }

  BufferPool pool_;
  test::MemoryStorage memory_;
  int num_wakes_ = 0;
  const std::shared_ptr<PieceInbox> inbox_ = std::make_shared<PieceInbox>([this] { ++num_wakes_; });
};

TEST_F(PieceReadTest, OpensItsFileAndReadsToItsPlaceInTheBuffer) {
  const auto read = read_of();
  read->start(memory_, "shard", nullptr);
  EXPECT_EQ(take(), read);
  EXPECT_FALSE(read->error);
  EXPECT_EQ(read->data(), read->buffer->data() + 3);
  EXPECT_EQ(bytes_of(*read), "56789abcde");

  // The next one goes on with the open file, whatever name it is given.
  const auto next = read_of(0, 4);
  next->start(memory_, "no such file", read->file);
  EXPECT_EQ(take(), next);
  EXPECT_FALSE(next->error);
  EXPECT_EQ(bytes_of(*next), "0123");
  EXPECT_EQ(next->file, read->file);
}

TEST_F(PieceReadTest, HasNoFileWhereItCannotBeOpened) {
  const auto read = read_of();
  read->start(memory_, "no such file", nullptr);
  EXPECT_EQ(take(), read);
  ASSERT_TRUE(read->error);
  EXPECT_EQ(read->file, nullptr);
}

TEST_F(PieceReadTest, RefusesAFileOfAnotherSizeThanTheIndexSays) {
  const auto read = read_of(5, 15, 21);
  read->start(memory_, "shard", nullptr);
  EXPECT_EQ(take(), read);
  ASSERT_TRUE(read->error);
  EXPECT_EQ(read->error->code, ErrorCode::kIndex);
  EXPECT_THAT(read->error->message, HasSubstr("it was made of 21 bytes, the file has 20"));
  EXPECT_EQ(read->file, nullptr);
}

TEST_F(PieceReadTest, SaysWhereAFileEndsThatWasCut) {
  const auto read = read_of(15, 25);
  read->start(memory_, "shard", nullptr);
  EXPECT_EQ(take(), read);
  ASSERT_TRUE(read->error);
  EXPECT_EQ(read->error->code, ErrorCode::kTruncated);
  EXPECT_NE(read->file, nullptr);  // other pieces of it may be whole
}

TEST_F(PieceReadTest, WakesWhoWaitsOnceAndNobodyElse) {
  test::ManualStorage slow(memory_);
  Done done;
  const auto first = read_of();
  const auto second = read_of();
  first->start(slow, "shard", nullptr);
  second->start(slow, "shard", nullptr);
  EXPECT_FALSE(inbox_->take(done, true));
  slow.answer_all();
  EXPECT_EQ(num_wakes_, 1);
  EXPECT_TRUE(inbox_->take(done, true));
  EXPECT_EQ(done, (Done{first, second}));

  EXPECT_FALSE(inbox_->take(done, false));
  const auto third = read_of();
  third->start(memory_, "shard", nullptr);
  EXPECT_EQ(num_wakes_, 1);
  EXPECT_EQ(take(), third);
}

TEST_F(PieceReadTest, IsNotBegunAndTellsNobodyWhenItsOwnerIsGone) {
  test::ManualStorage slow(memory_);
  const auto opening = read_of();
  opening->start(slow, "shard", nullptr);
  Done done;
  EXPECT_FALSE(inbox_->take(done, true));
  inbox_->close();
  opening->cancel();
  slow.answer_all();
  EXPECT_EQ(slow.num_reads(), 0U);

  const auto reading = read_of();
  reading->start(memory_, "shard", nullptr);
  EXPECT_FALSE(inbox_->take(done, true));
  EXPECT_EQ(num_wakes_, 0);
}

TEST(RecordPiece, OfOneRecordIsReadToWhereItStaysUnlessItIsPacked) {
  EXPECT_TRUE(RecordPiece{.count = 1}.is_in_place());
  EXPECT_FALSE(RecordPiece{.count = 2}.is_in_place());
  const RecordPiece packed{.count = 1, .num_frames = 1};
  EXPECT_TRUE(packed.is_packed());
  EXPECT_FALSE(packed.is_in_place());
}

}  // namespace
}  // namespace millrace::piece_read_test
