#include "tools/shard_verification.h"

#include <new>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::shard_verification_test {
namespace {

// Has memory for no file.
class FullStorage final : public Storage {
 public:
  void open(const std::string&, std::shared_ptr<OpenSink>) override { throw std::bad_alloc(); }
  [[nodiscard]] std::vector<std::string> glob(const std::string&) override { return {}; }
};

TEST(ShardVerification, MemoryThatEndsIsAnErrorOfItsShard) {
  FullStorage storage;
  const ShardVerification found = verify_shard(storage, "a");
  EXPECT_FALSE(found.good());
  ASSERT_EQ(found.damage.size(), 1U);
  EXPECT_EQ(found.damage[0].error.code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(found.damage[0].error.shard, "a");
  EXPECT_FALSE(found.damage[0].end_is_known);
}

}  // namespace
}  // namespace millrace::shard_verification_test
