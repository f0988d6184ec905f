#include "examples/mlm/model_folder.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/atomic_directory.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/whole_file.h"
#include "millrace/tokenizer/special_tokens.h"
#include "millrace/trainer/models/roberta_pretrained.h"

namespace millrace {

void save_model_description(const std::string& directory, const RobertaForMaskedLm& model,
                            const std::string& tokenizer_file) {
  save_roberta_config(directory, model.config());
  write_atomically(directory + "/tokenizer.json", read_whole_file(tokenizer_file));
  // What tokenizer.json does not say: which of its tokens plays which part.
  const SpecialTokens special = SpecialTokens::find(Tokenizer::load(tokenizer_file), tokenizer_file);
  nlohmann::ordered_json json = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  for (const auto& [role, token] :
       {std::pair("cls_token", special.cls), std::pair("sep_token", special.sep), std::pair("bos_token", special.bos),
        std::pair("eos_token", special.eos), std::pair("unk_token", special.unk), std::pair("pad_token", special.pad),
        std::pair("mask_token", special.mask)}) {
    if (token) json[role] = *token;
  }
  json["model_max_length"] = model.config().max_position_embeddings - model.config().pad_token_id - 1;
  json["clean_up_tokenization_spaces"] = false;
  write_atomically(directory + "/tokenizer_config.json", json.dump(2) + "\n");
}

void save_model_files(const std::string& directory, const RobertaForMaskedLm& model, std::span<const float> weights,
                      const std::string& tokenizer_file) {
  save_roberta_weights(directory, model, weights);
  save_model_description(directory, model, tokenizer_file);
}

void save_model_folder(const std::string& directory, const RobertaForMaskedLm& model, std::span<const float> weights,
                       const std::string& tokenizer_file) {
  AtomicDirectory whole(directory);
  save_model_files(whole.temporary_path(), model, weights, tokenizer_file);
  whole.commit();
}

}  // namespace millrace
