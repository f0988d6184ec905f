#pragma once

#include <string>

#include "tests/trainer/golden/report.h"

namespace millrace::test {

/// The cases of `optimizers.json` on each of its problems, in buckets that tear tensors apart. Optimizers exist in
/// float32; their trajectory is compared with the float32 and the float64 figures. Limits: weights after each update
/// 4e-7 of the largest of their tensor, or of 1 (three units in the last place), final slots 1e-6 relative and 1e-8;
/// beside float64 each update adds half a unit in the last place (2^-24) to both. Then norms, scales and clipped
/// gradients of clipping (1e-12 relative), and RAdam's rectification.
void check_golden_optimizers(const std::string& path, GoldenReport& report);

/// The tables of `schedules.json`: 1e-12 relative.
void check_golden_schedules(const std::string& path, GoldenReport& report);

}  // namespace millrace::test
