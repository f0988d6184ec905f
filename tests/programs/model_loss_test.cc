// Compares the loss of a model with what Hugging Face transformers makes of the same batch
// (tests/trainer/models/loss_case.h says what DIR holds): model_loss_test --dir DIR [--ignore-config NAME]... Prints
// both, and fails when they are further than 1e-3 from each other.
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "tests/trainer/models/loss_case.h"

int main(int argc, char** argv) {
  std::string folder;
  millrace::PretrainedOptions options;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  bool understood = arguments.size() % 2 == 0;
  for (size_t i = 0; understood && i < arguments.size(); i += 2) {
    if (arguments[i] == "--dir") {
      folder = arguments[i + 1];
    } else if (arguments[i] == "--ignore-config") {
      options.ignored_config_fields.push_back(arguments[i + 1]);
    } else {
      understood = false;
    }
  }
  if (!understood || folder.empty()) {
    std::fprintf(stderr, "usage: model_loss_test --dir DIR [--ignore-config NAME]...\n");
    return 2;
  }
  try {
    const millrace::test::LossCase found = millrace::test::run_loss_case(folder, options);
    const bool same = std::abs(found.loss - found.expected) <= 1e-3;
    std::printf("loss %.6f, expected %.6f: %s\n", found.loss, found.expected, same ? "the same" : "different");
    return same ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "model_loss_test: %s\n", error.what());
    return 1;
  }
}
