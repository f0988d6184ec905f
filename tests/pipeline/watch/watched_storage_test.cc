#include "millrace/pipeline/watch/watched_storage.h"

#include <utility>

#include <gtest/gtest.h>

#include "millrace/formats/storage/range_reader.h"

namespace millrace::watched_storage_test {
namespace {

// Answers an open when it is told to.
class LateStorage final : public Storage {
 public:
  void open(const std::string&, std::shared_ptr<OpenSink> sink) override {
    ++num_opens;
    sink_ = std::move(sink);
  }
  [[nodiscard]] std::vector<std::string> glob(const std::string&) override { return {}; }
  void fail() {
    StorageError error{.error = {.code = ErrorCode::kIo, .message = "connection lost"}, .retriable = true};
    std::exchange(sink_, nullptr)->open_done({.error = std::move(error)});
  }
  int num_opens = 0;

 private:
  std::shared_ptr<OpenSink> sink_;
};

class Answer final : public OpenSink {
 public:
  void open_done(OpenResult result) noexcept override {
    ++num_answers;
    message = result.error.error.message;
  }
  int num_answers = 0;
  std::string message;
};

TEST(WatchedStorage, IsAskedAgainAfterARetriableErrorWhileItIsThereAndNotLater) {
  const auto late = std::make_shared<LateStorage>();
  const auto answer = std::make_shared<Answer>();
  auto watched = std::make_unique<WatchedStorage>(late);
  open_with_retries(*watched, "a", 5, answer);
  late->fail();
  EXPECT_EQ(late->num_opens, 2);
  EXPECT_EQ(watched->files().size(), 1U);
  watched.reset();
  late->fail();
  EXPECT_EQ(late->num_opens, 2);
  EXPECT_EQ(answer->num_answers, 1);
  EXPECT_EQ(answer->message, "connection lost (after 2 attempts)");
}

}  // namespace
}  // namespace millrace::watched_storage_test
