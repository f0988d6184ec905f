#pragma once

#include <string>

#include "tests/trainer/golden/report.h"

namespace millrace::test {

/// Checks all that a directory holds of operators (`*.json` with a `*.safetensors` beside it), `optimizers.json`,
/// `schedules.json`, and models (folders with a `config.json`, by its `model_type`), in the order of their names;
/// or, given the folder of a model, that model.
/// Throws std::runtime_error when there is nothing to check.
void check_golden_directory(const std::string& directory, GoldenReport& report);

}  // namespace millrace::test
