#include "millrace/pipeline/watch/watched_storage.h"

#include <utility>

#include <gtest/gtest.h>

#include "millrace/formats/storage/range_reader.h"
#include "millrace/pipeline/watch/file_versions.h"
#include "millrace/pipeline/watch/traced_storage.h"

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

// A storage before a late one, which is asked again after a retriable error while it is there and not later.
void expect_no_question_to_the_dead(const std::shared_ptr<LateStorage>& late, std::unique_ptr<Storage> before) {
  const auto answer = std::make_shared<Answer>();
  open_with_retries(*before, "a", 5, answer);
  late->fail();
  EXPECT_EQ(late->num_opens, 2);
  before.reset();
  late->fail();
  EXPECT_EQ(late->num_opens, 2);
  EXPECT_EQ(answer->num_answers, 1);
  EXPECT_EQ(answer->message, "connection lost (after 2 attempts)");
}

TEST(StoragesOfAPipeline, AreAskedAgainAfterARetriableErrorWhileTheyAreThereAndNotLater) {
  for (const bool traced : {false, true}) {
    const auto late = std::make_shared<LateStorage>();
    expect_no_question_to_the_dead(
        late, traced ? std::unique_ptr<Storage>(std::make_unique<TracedStorage>(late, std::make_shared<Trace>()))
                     : std::make_unique<VersionCheckedStorage>(late, std::make_shared<FileVersions>()));
  }
  const auto late = std::make_shared<LateStorage>();
  expect_no_question_to_the_dead(late, std::make_unique<WatchedStorage>(late));
}

TEST(WatchedStorage, ListsAFileThatIsBeingOpened) {
  const auto late = std::make_shared<LateStorage>();
  WatchedStorage watched(late);
  watched.open("a", std::make_shared<Answer>());
  EXPECT_EQ(watched.files().size(), 1U);
  late->fail();
  EXPECT_EQ(watched.files().size(), 0U);
}

}  // namespace
}  // namespace millrace::watched_storage_test
