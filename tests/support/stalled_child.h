#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support/child_process.h"

namespace millrace::test {

/// Runs a program that is to exit for a stall whose cause is told with the words `cause`. A busy machine may keep a
/// thread away for as long as a short watchdog waits, which is a stall, too: the program runs again, and has twice as
/// long, until it tells of the cause or had a minute.
///
/// `arguments`: those of the program for a watchdog of so many seconds, and a number that is another one in each run.
ChildResult run_stalled_child(const std::function<std::vector<std::string>(double seconds, int run)>& arguments,
                              const ChildOptions& options, const std::string& cause);

}  // namespace millrace::test
