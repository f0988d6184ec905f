#include "millrace/trainer/run/tokenizer_files.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/whole_file.h"
#include "millrace/tokenizer/special_tokens.h"
#include "millrace/tokenizer/tokenizer.h"

namespace millrace {

void save_tokenizer_files(const std::string& directory, const std::string& tokenizer_file, int64_t model_max_length) {
  write_atomically(directory + "/tokenizer.json", read_whole_file(tokenizer_file));
  const SpecialTokens special = SpecialTokens::find(Tokenizer::load(tokenizer_file), tokenizer_file);
  nlohmann::ordered_json json = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  for (const auto& [role, token] :
       {std::pair("cls_token", special.cls), std::pair("sep_token", special.sep), std::pair("bos_token", special.bos),
        std::pair("eos_token", special.eos), std::pair("unk_token", special.unk), std::pair("pad_token", special.pad),
        std::pair("mask_token", special.mask)}) {
    if (token) json[role] = *token;
  }
  json["model_max_length"] = model_max_length;
  json["clean_up_tokenization_spaces"] = false;
  write_atomically(directory + "/tokenizer_config.json", json.dump(2) + "\n");
}

}  // namespace millrace
