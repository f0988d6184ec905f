#pragma once

#include <string>

#include "millrace/trainer/models/pretrained_options.h"
#include "millrace/trainer/models/roberta.h"

namespace millrace {

/// A RoBERTa in a directory, in the layout of Hugging Face transformers: `config.json` and `model.safetensors`, as
/// `RobertaForMaskedLM.save_pretrained` writes them and `AutoModelForMaskedLM.from_pretrained` reads them.

/// Reads `config.json` of a RoBERTa, or of an XLM-RoBERTa or CamemBERT, which compute the same. A field that is missing
/// has transformers' default. Throws `kIo` or `kParse` naming the file, and `kInvalidArgument` naming the field for a
/// model of another family, a part that we do not have (another activation, positions that are not absolute, ...), and
/// a field that is not known.
RobertaConfig load_roberta_config(const std::string& directory, const PretrainedOptions& options = {});

/// The weights of the directory (`WeightFiles`) in the model's layout, half precision and bfloat16 widened. Of the tied
/// weights (`lm_head.decoder.*`) one name or both may be there, and so may position ids and a pooler, which are not
/// read. Throws `kIo`, `kParse`, and `kInvalidArgument` listing tensors that are missing, unexpected or of another
/// shape, or whose copies differ.
FlatBuffer load_roberta_weights(const std::string& directory, const RobertaForMaskedLm& model);

/// The encoder alone of such a directory into `weights` (`[layout.size()]`) of a model that has `encoder` among others'
/// parts, under whatever prefix; what else the directory holds (heads, a pooler) is not read. The names may also be
/// those of `RobertaModel`, without `roberta.` in front. Throws as `load_roberta_weights`; `weights` is not changed
/// then.
///
///     load_roberta_encoder(directory, model.encoder(), model.layout(), trainer.weights());
void load_roberta_encoder(const std::string& directory, const RobertaEncoder& encoder, const ParameterLayout& layout,
                          std::span<float> weights);

/// Writes `config.json`; the directory must exist. Throws `kIo` naming the file.
void save_roberta_config(const std::string& directory, const RobertaConfig& config);

/// Writes `model.safetensors`, as `save_roberta_config` does.
void save_roberta_weights(const std::string& directory, const RobertaForMaskedLm& model,
                          std::span<const float> weights);

}  // namespace millrace
