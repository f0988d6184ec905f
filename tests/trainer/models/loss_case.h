#pragma once

#include <string>

#include "millrace/trainer/models/pretrained_options.h"

namespace millrace::test {

// A model of Hugging Face transformers with what that makes of a batch: a folder with config.json, weights,
// inputs.json (input_ids, labels and perhaps attention_mask, rows of one length) and expected.json (loss: the mean over
// labels that are not -100).
struct LossCase {
  double loss = 0;
  double expected = 0;
};

// Throws what loading throws, and whatever for files of another form.
[[nodiscard]] LossCase run_loss_case(const std::string& folder, const PretrainedOptions& options = {});

}  // namespace millrace::test
