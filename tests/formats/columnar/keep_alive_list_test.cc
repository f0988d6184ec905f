#include "millrace/formats/columnar/keep_alive_list.h"

#include <vector>

#include <gtest/gtest.h>

namespace millrace::keep_alive_list_test {
namespace {

// A copy may go on to hold something more, on another thread, while the first one is read.
TEST(KeepAliveList, ACopyThatHoldsMoreLeavesTheOtherAsItWas) {
  BufferPool pool;
  const std::vector<Buffer> buffers = {pool.allocate(1), pool.allocate(1), pool.allocate(1), pool.allocate(1)};
  const auto held = [](const KeepAliveList& holds) {
    std::vector<const Resource*> resources;
    holds.for_each([&](const Ref<Resource>& resource) { resources.push_back(resource.get()); });
    return resources;
  };
  KeepAliveList first;
  for (size_t i = 0; i < 3; ++i) first.add(buffers[i]);
  const std::vector<const Resource*> three = {buffers[0].get(), buffers[1].get(), buffers[2].get()};
  KeepAliveList second = first;
  second.add(buffers[3]);
  EXPECT_EQ(held(first), three);
  EXPECT_EQ(held(second), (std::vector<const Resource*>{three[0], three[1], three[2], buffers[3].get()}));
  EXPECT_FALSE(first.contains(buffers[3]));
  first.add(buffers[2]);  // the last one again
  EXPECT_EQ(held(first), three);
}

TEST(KeepAliveList, ResourcesAreNotOnlyHereWhileACopyKeepsThem) {
  BufferPool pool;
  KeepAliveList holds;
  for (int i = 0; i < 3; ++i) holds.add(pool.allocate(1));
  EXPECT_TRUE(holds.are_only_here());
  {
    const KeepAliveList copy = holds;
    EXPECT_FALSE(holds.are_only_here());
  }
  EXPECT_TRUE(holds.are_only_here());
}

}  // namespace
}  // namespace millrace::keep_alive_list_test
