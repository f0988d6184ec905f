// Bringing files to the disk takes as long as it takes, which is no stall.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/formats/elements/elements_folder.h"
#include "millrace/formats/elements/writer.h"
#include "millrace/ops/keep/elements_output.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/run/output_thread.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/support/temporary_folder.h"

namespace {

std::atomic<int> sync_milliseconds{0};
std::atomic<int> syncs{0};
std::atomic<int> running_sync{0};  // its number; 0: none
std::atomic<const millrace::OutputThread*> output{nullptr};
std::atomic<int> unmarked_syncs{0};

}  // namespace

// In front of the C library's.
extern "C" int fsync(int descriptor) {
  if (sync_milliseconds > 0) {
    running_sync = ++syncs;
    if (const millrace::OutputThread* thread = output; thread != nullptr && !thread->is_syncing()) ++unmarked_syncs;
    std::this_thread::sleep_for(std::chrono::milliseconds(sync_milliseconds));
    running_sync = 0;
  }
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

namespace millrace::slow_sync_test {
namespace {

class SlowSync : public ::testing::Test {
 protected:
  SlowSync() { sync_milliseconds = 120; }
  ~SlowSync() override { sync_milliseconds = 0; }

  const WorkerLimit limit_{3};
  const test::TemporaryFolder folder_;
};

// The watchdog waits for a sixth of that, and would tell of each file several times. On a busy machine it may find that
// nobody moves before a file is being brought to the disk, and tell so a moment later; whoever looks again while it is
// sees that.
constexpr double kWatchdogSeconds = 0.02;

TEST_F(SlowSync, IsNoStall) {
  syncs = 0;
  std::vector<int> told;
  const auto on_stall = [&](const Stall& stall) {
    const int sync = running_sync;
    if (sync == 0) return;
    EXPECT_TRUE(told.empty() || told.back() != sync) << stall.report;
    told.push_back(sync);
  };
  const Dataset dataset = Dataset::range(0, 3000).cache({.directory = folder_.path("kept")}).repeat(2);
  Pipeline pipeline = dataset.start({.threads = 1, .watchdog = kWatchdogSeconds, .on_stall = on_stall});
  int64_t elements = 0;
  while (pipeline.next()) ++elements;
  EXPECT_EQ(elements, 6000);
  // The file, the names, the description, its name: each once.
  EXPECT_EQ(syncs, 4);
}

TEST_F(SlowSync, EveryFileIsBroughtToTheDiskWhereTheWatchdogKnowsOfIt) {
  struct NoWaker final : Waker {
    void wake() noexcept override {}
  } waker;
  const auto schema =
      std::make_shared<const Schema>(std::vector<FeatureSpec>{{.name = "x", .dtype = DType::kInt64, .shape = {}}});
  sync_milliseconds = 1;
  BufferPool pool;
  InlineExecutor executor;
  LocalStorage storage(executor);
  OutputThread thread;
  LocalDisk disk{storage, thread};
  InlineLanes lanes;
  const StageContext context{.pool = pool, .waker = waker, .iteration = {}, .lanes = lanes, .disk = &disk};
  output = &thread;
  syncs = unmarked_syncs = 0;
  const auto written = std::make_shared<ElementsOutput>(
      context,
      std::make_unique<ElementsWriter>(ElementsFolder::lock(folder_.path()), schema,
                                       ElementsIndex::About{.written_by = "save"}, 10'000),
      [](ElementsWriter& all) { (void)all.commit(); });
  constexpr uint64_t kBlocks = 40;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    BlockBuilder builder(schema, pool);
    for (int64_t j = 0; j < 1024; ++j) {
      builder.column(0).append<int64_t>({&j, 1}, {});
      builder.added_elements(1);
    }
    written->append(builder.finish());
  }
  written->finish();
  while (!written->finished()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  thread.stop();
  output = nullptr;
  // Two blocks to a file, names, the description, its name.
  EXPECT_EQ(syncs, kBlocks / 2 + 3);
  EXPECT_EQ(unmarked_syncs, 0);
  // While a disk is slow, each block is a sign of life.
  EXPECT_GE(thread.done(), kBlocks + kBlocks / 2);
}

TEST_F(SlowSync, APipelineThatEndsWaitsForWhatIsOnItsWay) {
  {
    Pipeline pipeline = Dataset::range(0, 10).snapshot(folder_.path("kept")).start({.threads = 1});
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(pipeline.next());
  }
  // Whole or not there, and nobody writes any more.
  const auto files = test::files_below(folder_.path());
  EXPECT_TRUE(files.empty() || files.size() == 2) << files.size();
  EXPECT_TRUE(test::files_below(folder_.path()) == files);
}

}  // namespace
}  // namespace millrace::slow_sync_test
