// Bringing files to the disk takes as long as it takes, which is no stall.
#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pipeline/dataset.h"
#include "pipeline/worker_limit.h"
#include "tests/support/temporary_folder.h"

namespace {

std::atomic<int> sync_milliseconds{0};
std::atomic<int> syncs{0};

}  // namespace

// In front of the C library's.
extern "C" int fsync(int descriptor) {
  if (sync_milliseconds > 0) {
    ++syncs;
    std::this_thread::sleep_for(std::chrono::milliseconds(sync_milliseconds));
  }
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

namespace millrace {
namespace {

class SlowSync : public ::testing::Test {
 protected:
  SlowSync() { sync_milliseconds = 120; }
  ~SlowSync() override { sync_milliseconds = 0; }

  const WorkerLimit limit_{3};
  const test::TemporaryFolder folder_;
};

// Three times as long as the watchdog waits.
constexpr double kWatchdogSeconds = 0.04;

TEST_F(SlowSync, IsNoStall) {
  syncs = 0;
  const Dataset dataset = Dataset::range(0, 3000).cache({.directory = folder_.path("kept")}).repeat(2);
  Pipeline pipeline = dataset.start({.threads = 1, .watchdog = kWatchdogSeconds});
  int64_t elements = 0;
  while (pipeline.next()) ++elements;
  EXPECT_EQ(elements, 6000);
  // The file, the names, the description, its name: each once.
  EXPECT_EQ(syncs, 4);
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
}  // namespace millrace
