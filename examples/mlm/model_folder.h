#pragma once

#include <span>
#include <string>

#include "millrace/trainer/models/roberta.h"

namespace millrace {

/// A trained masked language model in Hugging Face's layout: `config.json`, `model.safetensors`, `tokenizer.json` and
/// `tokenizer_config.json`, as AutoModelForMaskedLM and PreTrainedTokenizerFast load them.

/// Writes all but the weights; the directory must exist. Throws `kIo` naming the file.
void save_model_description(const std::string& directory, const RobertaForMaskedLm& model,
                            const std::string& tokenizer_file);

/// Writes everything into a directory that exists. Throws `kIo` naming the file.
void save_model_files(const std::string& directory, const RobertaForMaskedLm& model, std::span<const float> weights,
                      const std::string& tokenizer_file);

/// Writes everything into a directory that has its name only when it is whole; one that is there is replaced. The
/// folder that it is in must exist. Throws `kIo` naming the file.
void save_model_folder(const std::string& directory, const RobertaForMaskedLm& model, std::span<const float> weights,
                       const std::string& tokenizer_file);

}  // namespace millrace
