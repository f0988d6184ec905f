// saving_elements save|cache|snapshot FOLDER COUNT: writes the numbers below COUNT to a folder, by one of the ways to
// do it, and prints how many elements it gave. With file faults: see faults_from_environment.cc.
#include <cstdio>
#include <string>

#include "millrace/pipeline/dataset.h"

namespace {

int64_t run(const std::string& kind, const std::string& folder, int64_t count) {
  using millrace::Dataset;
  const Dataset numbers = Dataset::range(0, count);
  if (kind == "save") return numbers.save(folder, {.overwrite = true, .start = {.threads = 1}}).elements;
  const Dataset kept = kind == "cache" ? numbers.cache({.directory = folder}) : numbers.snapshot(folder);
  millrace::Pipeline pipeline = kept.start({.threads = 1});
  int64_t elements = 0;
  while (pipeline.next()) ++elements;
  return elements;
}

}  // namespace

int main(int, char** argv) {
  try {
    std::printf("%lld\n", static_cast<long long>(run(argv[1], argv[2], std::stoll(argv[3]))));
    return 0;
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "%s\n", exception.what());
    return 1;
  }
}
