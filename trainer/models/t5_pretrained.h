#pragma once

#include <string>

#include "millrace/trainer/models/pretrained_options.h"
#include "millrace/trainer/models/t5.h"

namespace millrace {

/// A T5 in a directory, in the layout of Hugging Face transformers: `config.json` and `model.safetensors`, as
/// `T5ForConditionalGeneration.save_pretrained` writes them and `from_pretrained` reads them.

/// Reads `config.json` of a T5, or of an mT5, which computes the same (umT5 does not). A field that is missing has
/// transformers' default. Throws `kIo` or `kParse` naming the file, and `kInvalidArgument` naming the field for a model
/// of another family, a part that we do not have (another activation, ...), and a field that is not known. Where the
/// weights beside it have an `lm_head.weight` that differs from the embeddings, the model is not tied, whatever
/// `tie_word_embeddings` says (transformers 5 always says that it is), and its outputs are scaled as the config says;
/// that reads them.
T5Config load_t5_config(const std::string& directory, const PretrainedOptions& options = {});

/// The weights of the directory (`WeightFiles`) in the model's layout, half precision and bfloat16 widened. Copies of
/// the embeddings
/// (`encoder.embed_tokens`, `decoder.embed_tokens`, and `lm_head` where it is tied) may be in the file, and so may the
/// table of relative positions between encoder and decoder that published files have and nothing reads. Throws `kIo`,
/// `kParse`, and `kInvalidArgument` listing tensors that are missing, unexpected or of another shape, or a copy that
/// differs.
FlatBuffer load_t5_weights(const std::string& directory, const T5ForConditionalGeneration& model);

/// Writes `config.json`; the directory must exist. Throws `kIo` naming the file.
void save_t5_config(const std::string& directory, const T5Config& config);

/// Writes `model.safetensors`, as `save_t5_config` does.
void save_t5_weights(const std::string& directory, const T5ForConditionalGeneration& model,
                     std::span<const float> weights);

}  // namespace millrace
