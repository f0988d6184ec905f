#include "ops/elements_output.h"

#include <deque>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/columnar/block_builder.h"
#include "formats/storage/folder_lock.h"
#include "formats/storage/local.h"
#include "ops/range.h"
#include "tests/support/operator_chain.h"
#include "tests/support/temporary_folder.h"

namespace millrace::elements_output_test {
namespace {

// Runs what it is given when the test says so.
class Delayed final : public OutputExecutor {
 public:
  void submit(std::function<void()> function) override { functions_.push_back(std::move(function)); }
  void submit_sync(std::function<void()> function) override { functions_.push_back(std::move(function)); }
  void moved() noexcept override {}
  void run_all() {
    while (!functions_.empty()) {
      const std::function<void()> function = std::move(functions_.front());
      functions_.pop_front();
      function();
    }
  }

 private:
  std::deque<std::function<void()>> functions_;
};

// The disk is full, and the stage comes to its end before it looks: there is nothing left to bring to the disk.
TEST(ElementsOutput, FinishedBehindAnErrorThatNobodyHasSeenItTellsTheError) {
  const test::TemporaryFolder folder;
  const SchemaPtr schema = RangeOperator(0, 1, 1, "x").schema();
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  InlineExecutor reads;
  LocalStorage storage(reads);
  Delayed executor;
  LocalDisk disk{.storage = storage, .output = executor};
  StageContext context{pool, waker, {}, lanes};
  context.disk = &disk;
  auto writer = std::make_unique<ElementsWriter>(folder.path(), schema, ElementsIndex::About{.written_by = "save"},
                                                 std::make_shared<FolderLock>(folder.path(), "writing"));
  const auto output =
      std::make_shared<ElementsOutput>(context, std::move(writer), [](ElementsWriter& written) { written.commit(); });
  output->append(error_block(
      schema, pool, std::make_shared<const Error>(Error{.code = ErrorCode::kParse, .message = "cannot be written"})));
  executor.run_all();
  output->finish();
  executor.run_all();
  EXPECT_THAT([&] { (void)output->finished(); },
              testing::ThrowsMessage<ErrorException>(testing::HasSubstr("cannot be written")));
  output->close();
  executor.run_all();
}

}  // namespace
}  // namespace millrace::elements_output_test
