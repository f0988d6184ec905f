// Small programs in which each allocation, one after the other, finds no memory: what makes few of them is not found by
// a sample of those of a whole run.
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "millrace/command_line/command_line.h"
#include "millrace/formats/storage/atomic_directory.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/local.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/memory/failing_runs.h"
#include "tests/support/temporary_folder.h"

namespace millrace::every_allocation_test {
namespace {

using test::AllocationKind;
using test::FailingRun;
using test::FailurePoint;

void expect_one_line_for_each(const std::function<void()>& body) {
  const auto program = [&] {
    return run_program("program", [&] {
      body();
      return 0;
    });
  };
  const FailingRun right = test::run_with_failures(program, std::vector<FailurePoint>(1))[0];
  ASSERT_EQ(right.exit_code, 0) << right.err;
  std::vector<FailurePoint> points;
  for (int64_t number = 1; number <= right.small; ++number) points.push_back({AllocationKind::kSmall, number});
  for (int64_t number = 1; number <= right.large; ++number) points.push_back({AllocationKind::kLarge, number});
  ASSERT_FALSE(points.empty());
  const std::vector<FailingRun> runs = test::run_with_failures(program, points);
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string fault = fault_of(runs[i], right, points[i]);
    EXPECT_TRUE(fault.empty()) << fault;
  }
}

TEST(EveryAllocation, OfAnExecutor) {
  expect_one_line_for_each([] {
    const WorkerLimit limit(2);
    const Executor executor(2, /*memory_budget=*/1 << 20, /*has_reserved_slot=*/true);
  });
}

TEST(EveryAllocation, OfAFileAmongOthers) {
  const test::TemporaryFolder folder;
  for (const char* name : {"one", "two", "three.tmp-1-1"}) std::ofstream(folder.path(name)) << "text";
  expect_one_line_for_each([&] { write_atomically(folder.path("four"), "text"); });
}

TEST(EveryAllocation, OfADirectory) {
  const test::TemporaryFolder folder;
  expect_one_line_for_each([&] {
    AtomicDirectory directory(folder.path("saved"));
    write_atomically(directory.temporary_path() + "/one", "text");
    directory.commit();
  });
}

TEST(EveryAllocation, OfAPattern) {
  const test::TemporaryFolder folder;
  for (const char* name : {"a-1", "a-2", "b"}) std::ofstream(folder.path(name)) << "text";
  expect_one_line_for_each([&] { std::cout << glob_local(folder.path("a-*")).size() << "\n"; });
}

}  // namespace
}  // namespace millrace::every_allocation_test
