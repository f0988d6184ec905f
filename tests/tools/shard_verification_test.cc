#include "tools/shard_verification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/full_storage.h"

namespace millrace::shard_verification_test {
namespace {

TEST(ShardVerification, MemoryThatEndsIsAnErrorOfItsShard) {
  test::FullStorage storage;
  const ShardVerification found = verify_shard(storage, "a");
  EXPECT_FALSE(found.good());
  ASSERT_EQ(found.damage.size(), 1U);
  EXPECT_EQ(found.damage[0].error.code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(found.damage[0].error.shard, "a");
  EXPECT_FALSE(found.damage[0].end_is_known);
}

}  // namespace
}  // namespace millrace::shard_verification_test
