#include "tests/contract/resources.h"

#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>

#include <fmt/format.h>
#include <malloc.h>

#include "tests/support/sanitized.h"

namespace millrace::test {
namespace {

int64_t entries_of(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

}  // namespace

Resources Resources::now() {
  Resources held{.threads = entries_of("/proc/self/task"), .files = entries_of("/proc/self/fd")};
  if (!kSanitized) {
    const struct mallinfo2 info = ::mallinfo2();
    held.heap_bytes = static_cast<int64_t>(info.uordblks + info.hblkhd);
  }
  return held;
}

std::string left_over(const Resources& before, int64_t heap_slack) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (true) {
    const Resources now = Resources::now();
    std::string text;
    if (now.threads > before.threads) text += fmt::format("{} threads, ", now.threads - before.threads);
    if (now.files > before.files) text += fmt::format("{} file descriptors, ", now.files - before.files);
    if (now.heap_bytes > before.heap_bytes + heap_slack) {
      text += fmt::format("{} bytes of heap, ", now.heap_bytes - before.heap_bytes);
    }
    if (text.empty() || std::chrono::steady_clock::now() > deadline) return text;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace millrace::test
