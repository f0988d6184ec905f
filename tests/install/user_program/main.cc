#include <iostream>

#include "pipeline/dataset.h"

int main() {
  using namespace millrace;
  int64_t sum = 0;
  Pipeline pipeline = Dataset::range(0, 1000).shuffle(100, {.seed = 1}).batch(32).prefetch(2).start({.threads = 2});
  while (std::optional<Batch> batch = pipeline.next()) {
    for (const int64_t value : batch->values<int64_t>("value")) sum += value;
  }
  std::cout << sum << "\n";
}
