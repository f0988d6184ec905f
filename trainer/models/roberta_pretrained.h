#pragma once

#include <string>

#include "millrace/trainer/models/roberta.h"

namespace millrace {

/// A RoBERTa in a directory, in the layout of Hugging Face transformers: `config.json` and `model.safetensors`, as
/// `RobertaForMaskedLM.save_pretrained` writes them and `AutoModelForMaskedLM.from_pretrained` reads them.

/// Reads `config.json`. Throws `kIo` or `kParse` naming the file, and `kInvalidArgument` naming the field for a model
/// that is no RoBERTa or has a part that we do not have (another activation, positions that are not absolute, ...).
RobertaConfig load_roberta_config(const std::string& directory);

/// The weights of `directory/model.safetensors` in the model's layout. A second copy of the tied weights
/// (`lm_head.decoder.*`), position ids and a pooler may be in the file; the last two are not read. Throws `kIo`,
/// `kParse`, and `kInvalidArgument` listing tensors that are missing, unexpected or of another shape, or whose copies
/// differ.
FlatBuffer load_roberta_weights(const std::string& directory, const RobertaForMaskedLm& model);

/// Writes `config.json`; the directory must exist. Throws `kIo` naming the file.
void save_roberta_config(const std::string& directory, const RobertaConfig& config);

/// Writes `model.safetensors`, as `save_roberta_config` does.
void save_roberta_weights(const std::string& directory, const RobertaForMaskedLm& model,
                          std::span<const float> weights);

}  // namespace millrace
