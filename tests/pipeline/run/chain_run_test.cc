#include "millrace/pipeline/run/chain_run.h"

#include <gtest/gtest.h>

#include "millrace/formats/columnar/block_builder.h"

namespace millrace::chain_run_test {
namespace {

SchemaPtr value_schema() {
  return std::make_shared<const Schema>(std::vector<FeatureSpec>{{"value", DType::kInt64, {}}});
}

class NoWaker final : public Waker {
 public:
  void wake() noexcept override {}
};

/// Answers what it is told, one after the other; a block has that many elements, and -1 throws.
class Script final : public Stage {
 public:
  Script(BufferPool& pool, std::vector<std::pair<Poll, int>> answers) : pool_(pool), answers_(std::move(answers)) {}
  Poll next(Block& out) override {
    if (next_ == answers_.size()) return Poll::kEnd;
    const auto [poll, elements] = answers_[next_++];
    if (elements < 0) throw ErrorException(ErrorCode::kOutOfRange, "enough");
    if (poll != Poll::kBlock) return poll;
    out = Block(value_schema(), {Column::fixed(pool_, DType::kInt64, {}, static_cast<size_t>(elements))},
                static_cast<size_t>(elements));
    out.cursor = make_cursor("script", {given_}, {});
    given_ += elements;
    return poll;
  }

 private:
  BufferPool& pool_;
  std::vector<std::pair<Poll, int>> answers_;
  size_t next_ = 0;
  int64_t given_ = 0;
};

class ChainRunTest : public ::testing::Test {
 protected:
  void open(std::vector<std::pair<Poll, int>> answers, StageStatePtr state = nullptr) {
    context_.state = std::move(state);
    run_.open([answers](const StageContext& at) { return std::make_unique<Script>(at.pool, answers); }, context_);
  }

  BufferPool pool_;
  NoWaker waker_;
  InlineLanes lanes_;
  StageContext context_{pool_, waker_, {}, lanes_};
  ChainRun run_{value_schema(), /*num_numbered=*/1};
  Block block_;
};

TEST_F(ChainRunTest, NumbersRowsFromBlockToBlockAndAnewInEachRun) {
  for (int run = 0; run < 2; ++run) {
    open({{Poll::kBlock, 3}, {Poll::kPending, 0}, {Poll::kBlock, 2}, {Poll::kBlock, 1}});
    std::vector<int64_t> first_rows;
    for (Poll poll = run_.poll(block_); poll != Poll::kEnd; poll = run_.poll(block_)) {
      if (poll == Poll::kBlock) first_rows.push_back(block_.first_row);
    }
    EXPECT_EQ(first_rows, (std::vector<int64_t>{0, 3, 5}));
    EXPECT_EQ(run_.poll(block_), Poll::kEnd) << "and from then on";
  }
}

TEST_F(ChainRunTest, GoesOnCountingFromItsCursor) {
  open({{Poll::kBlock, 3}, {Poll::kBlock, 2}});
  ASSERT_EQ(run_.poll(block_), Poll::kBlock);
  ASSERT_EQ(run_.poll(block_), Poll::kBlock);
  open({{Poll::kBlock, 1}}, block_.cursor.state);
  ASSERT_EQ(run_.poll(block_), Poll::kBlock);
  EXPECT_EQ(block_.first_row, 3);
}

TEST_F(ChainRunTest, WhatIsThrownIsTheNextElementAndTheEnd) {
  open({{Poll::kBlock, 3}, {Poll::kBlock, -1}, {Poll::kBlock, 3}});
  ASSERT_EQ(run_.poll(block_), Poll::kBlock);
  ASSERT_EQ(run_.poll(block_), Poll::kBlock);
  ASSERT_EQ(block_.num_elements(), 1U);
  ASSERT_NE(block_.error_at(0), nullptr);
  EXPECT_EQ(block_.error_at(0)->code, ErrorCode::kOutOfRange);
  EXPECT_TRUE(block_.error_at(0)->ends_stream);
  EXPECT_EQ(block_.first_row, 3);
  EXPECT_EQ(run_.poll(block_), Poll::kEnd);
}

TEST_F(ChainRunTest, WhatOpeningThrowsIsItsOnlyElement) {
  run_.open([](const StageContext&) -> std::unique_ptr<Stage> { throw ErrorException(ErrorCode::kIo, "gone"); },
            context_);
  ASSERT_EQ(run_.poll(block_), Poll::kBlock);
  EXPECT_EQ(block_.error_at(0)->code, ErrorCode::kIo);
  EXPECT_EQ(run_.poll(block_), Poll::kEnd);
}

TEST_F(ChainRunTest, IsFruitlessOncePendingForLongAndNoLongerWithABlock) {
  std::vector<std::pair<Poll, int>> answers(16, {Poll::kPending, 0});
  answers.emplace_back(Poll::kBlock, 1);
  open(answers);
  for (int i = 0; i < 16; ++i) {
    EXPECT_FALSE(run_.is_fruitless()) << i;
    ASSERT_EQ(run_.poll(block_), Poll::kPending);
  }
  EXPECT_TRUE(run_.is_fruitless());
  ASSERT_EQ(run_.poll(block_), Poll::kBlock);
  EXPECT_FALSE(run_.is_fruitless());
}

}  // namespace
}  // namespace millrace::chain_run_test
