#include "tests/support/stalled_child.h"

namespace millrace::test {

ChildResult run_stalled_child(const std::function<std::vector<std::string>(double seconds, int run)>& arguments,
                              const ChildOptions& options, const std::string& cause) {
  double seconds = 0.25;
  for (int run = 0;; ++run, seconds *= 2) {
    ChildResult result = run_child(arguments(seconds, run), options);
    if (result.err.find(cause) != std::string::npos || seconds > 60) return result;
  }
}

}  // namespace millrace::test
