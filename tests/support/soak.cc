#include "tests/support/soak.h"

#include <chrono>
#include <cstdlib>
#include <string>

namespace millrace::test {

std::optional<int64_t> number_from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  size_t end = 0;
  const int64_t number = std::stoll(text, &end);
  if (text[end] != '\0') throw std::invalid_argument(std::string(name) + " is no whole number: " + text);
  return number;
}

bool soaking() { return number_from_environment("MILLRACE_SOAK").value_or(0) != 0; }

uint64_t seed_of_this_run() {
  constexpr int64_t kUsual = 1;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  static const int64_t kOwn = soaking() ? std::chrono::duration_cast<std::chrono::milliseconds>(now).count() : kUsual;
  return static_cast<uint64_t>(number_from_environment("MILLRACE_SEED").value_or(kOwn));
}

}  // namespace millrace::test
