#pragma once

#include <string>

#include "tests/trainer/golden/report.h"

namespace millrace::test {

/// The cases of `optimizers.json` on each of its problems, in buckets that tear tensors apart: float32 weights after
/// each update within 4e-7 of the largest of their tensor, or of 1 (three units in the last place), final slots within
/// 1e-6 relative and 1e-8, norms and scales of clipping, RAdam's rectification.
void check_golden_optimizers(const std::string& path, GoldenReport& report);

/// The tables of `schedules.json`: 1e-12 relative.
void check_golden_schedules(const std::string& path, GoldenReport& report);

}  // namespace millrace::test
