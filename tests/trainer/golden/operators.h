#pragma once

#include <string>

#include "tests/trainer/golden/report.h"

namespace millrace::test {

/// Runs the cases of `STEM.json` on the tensors of `STEM.safetensors`, each in float64 (limit 1e-11) and
/// in float32 (`float_limit`), relative to the largest value of a tensor where that is above 1: outputs, and the
/// gradients of sum(output * upstream).
void check_golden_operators(const std::string& stem, double float_limit, GoldenReport& report);

}  // namespace millrace::test
