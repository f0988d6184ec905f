#include "millrace/trainer/run/tokenizer_files.h"

#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/tokenizer/special_tokens.h"
#include "millrace/tokenizer/tokenizer.h"

namespace millrace {

void save_tokenizer_files(const std::string& directory, const std::string& tokenizer_file, int64_t model_max_length) {
  write_atomically(directory + "/tokenizer.json", read_whole_anywhere(tokenizer_file, "tokenizer"));
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

bool is_same_tokenizer(const std::string& file, const std::string& other) {
  return Tokenizer::load(file).to_json() == Tokenizer::load(other).to_json();
}

std::string tokenizer_digest(const std::string& file) {
  const std::string bytes = read_whole_anywhere(file, "tokenizer");
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

void check_tokenizer_of(const std::string& directory, int64_t vocab_size, const std::string& tokenizer_file) {
  const int32_t size = Tokenizer::load(tokenizer_file).size();
  if (size > vocab_size) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("the model in {} has a vocabulary of {}, the tokenizer {} one of {}", directory,
                                     vocab_size, tokenizer_file, size));
  }
  const std::string own = directory + "/tokenizer.json";
  if (!std::filesystem::exists(own) || is_same_tokenizer(own, tokenizer_file)) return;
  throw ErrorException(ErrorCode::kInvalidArgument,
                       fmt::format("{} is another tokenizer than that of the model in {}", tokenizer_file, directory));
}

}  // namespace millrace
