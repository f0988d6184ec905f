#include "millrace/formats/error.h"

#include <functional>
#include <new>
#include <stdexcept>

#include <gtest/gtest.h>

namespace millrace::error_test {
namespace {

std::string caught(const std::function<void()>& function, std::string_view stage = {}) {
  try {
    function();
  } catch (...) {
    return current_exception_as_error(stage).to_string();
  }
  return "nothing thrown";
}

TEST(Error, IsMadeOfAnyException) {
  EXPECT_EQ(
      caught([] { throw ErrorException({.code = ErrorCode::kIo, .message = "gone", .shard = "a", .offset = 3}); }),
      "io: gone (shard a, offset 3)");
  EXPECT_EQ(caught([] { throw std::bad_alloc(); }), "out_of_memory: the system has no more memory");
  EXPECT_EQ(caught([] { throw std::bad_array_new_length(); }), "out_of_memory: the system has no more memory");
  EXPECT_EQ(caught([] { throw std::runtime_error("bad luck"); }), "user_function: bad luck");
  EXPECT_EQ(caught([] { throw 7; }), "user_function: threw something that is no std::exception");
}

// Files of checkpoints, tokenizers and the like are no shards.
TEST(Error, CallsAFileAShardWhereAPlaceInItIsKnownOrAStageReadsIt) {
  const auto said = [](Error error) {
    error.message = "gone";
    return error.to_string();
  };
  EXPECT_EQ(said({.shard = "config.json"}), "io: gone (file config.json)");
  EXPECT_EQ(said({.shard = "a", .offset = 0}), "io: gone (shard a, offset 0)");
  EXPECT_EQ(said({.shard = "a", .record = 0}), "io: gone (shard a, record 0)");
  EXPECT_EQ(said({.shard = "a", .stage = "tfrecord"}), "io: gone (shard a, stage tfrecord)");
}

TEST(Error, OfAnExceptionNamesTheStageUnlessItHasOne) {
  EXPECT_EQ(caught([] { throw std::runtime_error("bad luck"); }, "map"), "user_function: bad luck (stage map)");
  EXPECT_EQ(caught([] { throw ErrorException({.code = ErrorCode::kIo, .message = "gone", .stage = "load"}); }, "map"),
            "io: gone (stage load)");
}

}  // namespace
}  // namespace millrace::error_test
