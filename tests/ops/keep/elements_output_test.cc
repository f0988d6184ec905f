#include "millrace/ops/keep/elements_output.h"

#include <deque>
#include <new>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/formats/elements/elements_folder.h"
#include "millrace/formats/storage/local.h"
#include "millrace/ops/sources/range.h"
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

struct Output {
  // Of elements "x", whose commit calls `before_commit` first.
  explicit Output(std::function<void()> before_commit = [] {}) {
    context.disk = &disk;
    auto writer = std::make_unique<ElementsWriter>(ElementsFolder::lock(folder.path()), schema,
                                                   ElementsIndex::About{.written_by = "save"});
    output = std::make_shared<ElementsOutput>(context, std::move(writer), [before_commit](ElementsWriter& written) {
      before_commit();
      written.commit();
    });
  }
  // What it tells the stage at its end.
  std::string error_at_the_end() {
    output->finish();
    executor.run_all();
    std::string error = "none";
    try {
      if (!output->finished()) error = "not finished";
    } catch (const ErrorException& exception) {
      error = exception.what();
    }
    output->close();
    executor.run_all();
    return error;
  }

  const test::TemporaryFolder folder;
  const SchemaPtr schema = RangeOperator(0, 1, 1, "x").schema();
  BufferPool pool;
  test::CountingWaker waker;
  InlineLanes lanes;
  InlineExecutor reads;
  LocalStorage storage{reads};
  Delayed executor;
  LocalDisk disk{.storage = storage, .output = executor};
  StageContext context{pool, waker, {}, lanes};
  std::shared_ptr<ElementsOutput> output;
};

// The disk is full, and the stage comes to its end before it looks: there is nothing left to bring to the disk.
TEST(ElementsOutput, FinishedBehindAnErrorThatNobodyHasSeenItTellsTheError) {
  Output out;
  out.output->append(
      error_block(out.schema, out.pool,
                  std::make_shared<const Error>(Error{.code = ErrorCode::kParse, .message = "cannot be written"})));
  out.executor.run_all();
  EXPECT_THAT(out.error_at_the_end(), testing::HasSubstr("cannot be written"));
}

TEST(ElementsOutput, TellsWhateverIsThrownWhileItWrites) {
  EXPECT_EQ(Output().error_at_the_end(), "none");
  EXPECT_EQ(Output([] { throw std::bad_alloc(); }).error_at_the_end(), "out_of_memory: the system has no more memory");
  EXPECT_EQ(Output([] { throw std::runtime_error("no such thing"); }).error_at_the_end(),
            "user_function: no such thing");
  EXPECT_EQ(Output([] { throw 7; }).error_at_the_end(), "user_function: threw something that is no std::exception");
}

}  // namespace
}  // namespace millrace::elements_output_test
