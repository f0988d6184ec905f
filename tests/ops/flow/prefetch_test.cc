#include "millrace/ops/flow/prefetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/ops/sources/range.h"
#include "tests/support/operator_chain.h"

namespace millrace::prefetch_test {
namespace {

using ::testing::ElementsAre;

test::Chain range() { return test::Chain::source<RangeOperator>(0, 3, 1, "x"); }

std::string refusal(int64_t buffer_size) {
  try {
    (void)range().then<PrefetchOperator>(buffer_size);
  } catch (const ErrorException& e) {
    return e.what();
  }
  return "accepted";
}

TEST(PrefetchTest, ChangesNothingInTheStream) {
  for (const int64_t size : {int64_t{-1}, int64_t{0}, int64_t{2}, PrefetchOperator::kMaxBufferSize}) {
    EXPECT_THAT(range().then<PrefetchOperator>(size).elements(), ElementsAre("x=0", "x=1", "x=2"));
  }
}

TEST(PrefetchTest, RefusesABufferThatNoMemoryHolds) {
  EXPECT_EQ(refusal(-2), "invalid_argument: prefetch: buffer_size is -2, must be between 0 and 65536 blocks");
  EXPECT_EQ(refusal(65536), "accepted");
  EXPECT_EQ(refusal(65537), "invalid_argument: prefetch: buffer_size is 65537, must be between 0 and 65536 blocks");
  EXPECT_EQ(refusal(INT64_MAX),
            "invalid_argument: prefetch: buffer_size is 9223372036854775807, must be between 0 and 65536 blocks");
}

}  // namespace
}  // namespace millrace::prefetch_test
