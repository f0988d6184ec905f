#include "formats/columnar/block.h"

#include <gtest/gtest.h>

#include "formats/columnar/block_builder.h"

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

// A copy may go on to hold something more, on another thread, while the first one is read.
TEST(Holds, ACopyThatHoldsMoreLeavesTheOtherAsItWas) {
  BufferPool pool;
  const std::vector<Buffer> buffers = {pool.allocate(1), pool.allocate(1), pool.allocate(1), pool.allocate(1)};
  const auto held = [](const Holds& holds) {
    std::vector<const Resource*> resources;
    holds.for_each([&](const Ref<Resource>& resource) { resources.push_back(resource.get()); });
    return resources;
  };
  Holds first;
  for (size_t i = 0; i < 3; ++i) first.add(buffers[i]);
  const std::vector<const Resource*> three = {buffers[0].get(), buffers[1].get(), buffers[2].get()};
  Holds second = first;
  second.add(buffers[3]);
  EXPECT_EQ(held(first), three);
  EXPECT_EQ(held(second), (std::vector<const Resource*>{three[0], three[1], three[2], buffers[3].get()}));
  EXPECT_FALSE(first.contains(buffers[3]));
  first.add(buffers[2]);  // the last one again
  EXPECT_EQ(held(first), three);
}

TEST(Holds, ResourcesAreNotOnlyHereWhileACopyKeepsThem) {
  BufferPool pool;
  Holds holds;
  for (int i = 0; i < 3; ++i) holds.add(pool.allocate(1));
  EXPECT_TRUE(holds.are_only_here());
  {
    const Holds copy = holds;
    EXPECT_FALSE(holds.are_only_here());
  }
  EXPECT_TRUE(holds.are_only_here());
}

}  // namespace
}  // namespace millrace::block_test
