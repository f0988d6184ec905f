#include "millrace/formats/columnar/block.h"

#include <gtest/gtest.h>

#include "millrace/formats/columnar/block_builder.h"

namespace millrace::block_test {
namespace {

TEST(Block, NextErrorIsTheFirstAtAnElementOrBehindIt) {
  BufferPool pool;
  Block block(record_schema(), {Column::fixed(pool, DType::kBytes, {}, 9)}, 9);
  EXPECT_EQ(block.next_error(0), nullptr);
  for (const size_t element : {size_t{6}, size_t{2}}) {
    block.add_error(element, std::make_shared<const Error>(Error{.message = std::to_string(element)}));
  }
  const auto next = [&](size_t from) { return block.next_error(from)->error->message; };
  EXPECT_EQ(next(0), "2");
  EXPECT_EQ(next(2), "2");
  EXPECT_EQ(next(3), "6");
  EXPECT_EQ(next(6), "6");
  EXPECT_EQ(block.next_error(7), nullptr);
}

}  // namespace
}  // namespace millrace::block_test
