#include "millrace/formats/storage/range_reader.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/injecting_storage.h"
#include "tests/support/memory_storage.h"
#include "tests/support/shard_driver.h"

namespace millrace::retry_test {
namespace {

using test::InjectingStorage;
using test::MemoryStorage;
using test::WakeFlag;
using ::testing::HasSubstr;

struct Opened final : OpenSink {
  void open_done(OpenResult answer) noexcept override {
    result = std::move(answer);
    flag.wake();
  }
  OpenResult result;
  WakeFlag flag;
};

struct Read final : ReadSink {
  void read_done(ReadResult answer) noexcept override {
    result = std::move(answer);
    ++num_answers;
    flag.wake();
  }
  ReadResult result;
  int num_answers = 0;
  WakeFlag flag;
};

class RetryTest : public ::testing::Test {
 protected:
  RetryTest() {
    for (int i = 0; content_.size() < 100000; ++i) content_ += std::to_string(i);
    memory_.add("a", content_);
  }
  static std::shared_ptr<File> open(Storage& storage, int max_attempts) {
    auto opened = std::make_shared<Opened>();
    open_with_retries(storage, "a", max_attempts, opened);
    EXPECT_TRUE(opened->flag.wait());
    return opened->result.file;
  }
  static ReadResult read(const std::shared_ptr<File>& file, int max_attempts, uint64_t offset, std::span<char> room) {
    auto sink = std::make_shared<Read>();
    auto reader = std::make_shared<RangeReader>(file, max_attempts);
    reader->read(offset, std::as_writable_bytes(room), sink);
    EXPECT_TRUE(sink->flag.wait());
    EXPECT_EQ(sink->num_answers, 1);
    return sink->result;
  }
  MemoryStorage memory_;
  std::string content_;
};

TEST_F(RetryTest, ShortReadsAndRetriableErrorsAreNotSeen) {
  for (const int latency : {0, 20}) {
    InjectingStorage storage(memory_, {.max_latency = std::chrono::microseconds(latency),
                                       .max_read_bytes = latency == 0 ? 3U : 3000U,
                                       .retriable_error_rate = 0.3});
    const auto file = open(storage, 3);
    ASSERT_NE(file, nullptr);
    std::string room(70000, '.');
    const ReadResult result = read(file, 3, 1234, room);
    EXPECT_TRUE(result.ok);
    EXPECT_EQ(result.bytes, room.size());
    EXPECT_TRUE(content_.substr(1234, room.size()) == room);
    EXPECT_GT(storage.counts().retriable_errors, 3U);
    EXPECT_GT(storage.counts().reads, latency == 0 ? 20000U : 40U);  // a recursion that deep would be a crash
  }
}

TEST_F(RetryTest, EndOfTheFileIsTheOnlyShortRead) {
  InjectingStorage storage(memory_, {.max_read_bytes = 100});
  const auto file = open(storage, 2);
  std::string room(5000, '.');
  const ReadResult result = read(file, 2, content_.size() - 3000, room);
  EXPECT_TRUE(result.ok);
  EXPECT_EQ(result.bytes, 3000U);
  EXPECT_EQ(read(file, 2, content_.size(), room).bytes, 0U);
}

TEST_F(RetryTest, NumberOfAttemptsIsBounded) {
  InjectingStorage storage(memory_, {.retriable_error_rate = 1});  // two errors in a row, then success
  EXPECT_EQ(open(storage, 2), nullptr);                            // both errors
  const auto file = open(storage, 3);                              // the success
  ASSERT_NE(file, nullptr);
  std::string room(50, '.');
  EXPECT_TRUE(read(file, 3, 0, room).ok);
  const ReadResult result = read(file, 2, 0, room);
  EXPECT_FALSE(result.ok);
  EXPECT_THAT(result.error.error.message, HasSubstr("after 2 attempts"));
}

TEST_F(RetryTest, FinalErrorIsNotRetried) {
  InjectingStorage storage(memory_, {.final_error_rate = 1});
  const auto file = open(storage, 5);
  std::string room(50, '.');
  EXPECT_FALSE(read(file, 5, 0, room).ok);
  EXPECT_EQ(storage.counts().reads, 1U);
}

// Where nothing is thrown by whoever calls: on a thread of the storage, after a first answer.
TEST_F(RetryTest, WhatAStorageThrowsIsTheAnswer) {
  struct Throws final : File {
    uint64_t size() const override { return 8; }
    std::string version() const override { return ""; }
    void read(uint64_t offset, std::span<std::byte>, std::shared_ptr<ReadSink> sink) override {
      if (offset > 0) throw std::bad_alloc();
      sink->read_done({.bytes = 1});
    }
  };
  std::string room(8, ' ');
  const ReadResult result = read(std::make_shared<Throws>(), 1, 0, room);
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.bytes, 1);
  EXPECT_EQ(result.error.error.code, ErrorCode::kOutOfMemory);
}

TEST_F(RetryTest, SameSeedInjectsTheSame) {
  const auto run = [&](uint64_t seed) {
    InjectingStorage storage(memory_, {.seed = seed, .max_read_bytes = 700, .retriable_error_rate = 0.2});
    std::string room(60000, '.');
    EXPECT_TRUE(read(open(storage, 3), 3, 0, room).ok);
    return std::pair(storage.counts().reads, storage.counts().retriable_errors);
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

}  // namespace
}  // namespace millrace::retry_test
