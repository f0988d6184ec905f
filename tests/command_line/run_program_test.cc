#include <gtest/gtest.h>
#include <sys/resource.h>

#include "millrace/command_line/command_line.h"

namespace millrace::run_program_test {
namespace {

TEST(RunProgram, MayOpenAsManyFilesAsItsHardLimitSays) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit usual{.rlim_cur = limit.rlim_max / 2, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_EQ(run_program("program",
                        [&] {
                          EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
                          return 7;
                        }),
            7);
  EXPECT_EQ(limit.rlim_cur, limit.rlim_max);
  EXPECT_EQ(limit.rlim_max, usual.rlim_max);
}

}  // namespace
}  // namespace millrace::run_program_test
