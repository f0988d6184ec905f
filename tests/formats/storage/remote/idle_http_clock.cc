#include "tests/formats/storage/remote/idle_http_clock.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include <unistd.h>

namespace millrace::test {
namespace {

using std::chrono::nanoseconds;

// As long as it takes an answer to be read and to be waited for again.
constexpr std::chrono::milliseconds kQuiet(1);
constexpr int kTimes = 3;

// Whether a thread other than this one runs, or would if it had a core.
bool others_run() {
  const std::string self = std::to_string(::gettid());
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    if (task.path().filename() == self) continue;
    std::string stat;
    std::getline(std::ifstream(task.path() / "stat"), stat);  // empty: it has ended meanwhile
    const size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos || stat[name_end + 2] != 'S') return true;
  }
  return static_cast<bool>(error);
}

}  // namespace

nanoseconds IdleHttpClock::sleep_for(nanoseconds wait) const {
  const auto asked_at = std::chrono::steady_clock::now();
  // Whatever comes to the engine ends its sleep early, or has another deadline.
  const bool is_quiet = asked_at - asked_at_ >= kQuiet && wait == wait_ && !others_run();
  quiet_ = is_quiet ? quiet_ + 1 : 0;
  asked_at_ = asked_at;
  wait_ = wait;
  if (quiet_ < kTimes) return kQuiet;
  quiet_ = 0;
  now_ += wait.count();
  return nanoseconds(0);
}

}  // namespace millrace::test
