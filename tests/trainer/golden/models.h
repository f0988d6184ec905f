#pragma once

#include <string>

#include "tests/trainer/golden/report.h"

namespace millrace::test {

/// A folder with a RoBERTa in Hugging Face's layout, `io.safetensors` (a batch, hidden states, logits, losses),
/// `grads.safetensors` and `trajectory.json`, and if there is one `id1_inside.safetensors`. Hidden states, logits and
/// losses of tokens: 1e-5 of the largest value, and 1e-6; the others as in trajectory.h. All are without dropout,
/// whatever the rates in `config.json` are.
void check_golden_roberta(const std::string& folder, GoldenReport& report);

/// The same for a T5: `io.safetensors` with sets of labels `X.labels`, `X.logits` and so on, for each of which there
/// are `grads_X.safetensors` and a part of `trajectory.json`.
void check_golden_t5(const std::string& folder, GoldenReport& report);

}  // namespace millrace::test
