#pragma once

#include <functional>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "millrace/trainer/model.h"
#include "tests/trainer/golden/report.h"

namespace millrace::test {

/// The gradient of loss_sum / num_labels of a batch against the tensors of a safetensors file, and the sums of the
/// loss. Limit: 1e-4 of a tensor's largest value, and 1e-7.
void check_golden_gradients(const std::string& name, const std::string& path, const Model& model,
                            std::span<const float> weights, const BatchView& batch, double loss_sum, double num_labels,
                            GoldenReport& report);

/// The runs of a trajectory: training on one batch, on eight replicas, from these weights, by the rule that
/// `rule_of_run` finds. Limits: losses 1e-5; for each parameter the root of the sum of squares 1e-5 relative, the sum
/// 5e-5; the same beside figures in float64 (`losses_float64`, ...) where there are some. Under adaptive rules
/// parameters that `is_noise` says have a gradient of rounding errors only are left out.
void check_golden_runs(const std::string& name, const nlohmann::json& trajectory, const Model& model,
                       std::span<const float> weights, const BatchView& batch,
                       const std::function<bool(const std::string& parameter)>& is_noise, GoldenReport& report);

}  // namespace millrace::test
