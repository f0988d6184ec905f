#include <iostream>

// Of the program itself, whose folders and files are named like those of Millrace.
#include "formats/error.h"
#include "millrace/pipeline/dataset.h"
#include "pipeline/dataset.h"

int main() {
  int64_t sum = 0;
  millrace::Pipeline pipeline = millrace::Dataset::range(0, 1000)
                                    .shuffle(100, {.seed = 1})
                                    .batch(32)
                                    .prefetch(2)
                                    .start({.threads = num_threads()});
  while (std::optional<millrace::Batch> batch = pipeline.next()) {
    for (const int64_t value : batch->values<int64_t>("value")) sum += value;
  }
  if (sum < 0) throw Error("a sum of numbers from 0 on is below 0");
  std::cout << sum << "\n";
}
