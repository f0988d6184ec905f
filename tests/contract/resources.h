#pragma once

#include <cstdint>
#include <string>

namespace millrace::test {

// What this process holds now.
struct Resources {
  int64_t threads = 0;
  int64_t files = 0;       // open descriptors
  int64_t heap_bytes = 0;  // taken from malloc and not given back; 0 where a sanitizer replaces malloc

  static Resources now();
};

// What is held now beyond `before`, in words; empty: nothing. Threads end a moment after they were told to, so there
// is a wait of up to some seconds for them. `heap_slack`: bytes that do not count.
[[nodiscard]] std::string left_over(const Resources& before, int64_t heap_slack);

}  // namespace millrace::test
