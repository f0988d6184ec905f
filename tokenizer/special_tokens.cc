#include "millrace/tokenizer/special_tokens.h"

#include <array>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/storage/whole_file.h"

namespace millrace {
namespace {

struct Role {
  const char* field;
  std::optional<std::string> SpecialTokens::*token;
  std::array<const char*, 2> usual;
};
constexpr std::array kRoles = {
    Role{"cls_token", &SpecialTokens::cls, {"[CLS]", "<s>"}},
    Role{"sep_token", &SpecialTokens::sep, {"[SEP]", "</s>"}},
    Role{"mask_token", &SpecialTokens::mask, {"[MASK]", "<mask>"}},
    Role{"pad_token", &SpecialTokens::pad, {"<pad>", "[PAD]"}},
    Role{"unk_token", &SpecialTokens::unk, {"<unk>", "[UNK]"}},
    Role{"bos_token", &SpecialTokens::bos, {}},
    Role{"eos_token", &SpecialTokens::eos, {}},
};

// Fills in what the file says and is not known yet. A token stands there as a text, or as an object with its `content`.
void read_file(const std::filesystem::path& path, const Tokenizer& tokenizer, SpecialTokens& tokens) {
  if (!std::filesystem::exists(path)) return;
  const nlohmann::json file = parse_json(read_whole_file(path.string()), path.string());
  const auto refuse = [&path](ErrorCode code, std::string message) {
    throw ErrorException({.code = code, .message = std::move(message), .shard = path.string()});
  };
  if (!file.is_object()) refuse(ErrorCode::kParse, "the file is not a JSON object");
  for (const Role& role : kRoles) {
    if (tokens.*role.token || !file.contains(role.field)) continue;
    const nlohmann::json& entry = file[role.field];
    if (entry.is_null()) continue;
    const nlohmann::json& text = entry.is_object() && entry.contains("content") ? entry["content"] : entry;
    if (!text.is_string()) refuse(ErrorCode::kParse, fmt::format("{} is {}", role.field, shown_json(entry)));
    auto token = text.get<std::string>();
    if (!tokenizer.id_of(token)) {
      refuse(ErrorCode::kInvalidArgument,
             fmt::format("{} is {}, which the tokenizer does not have", role.field, shown_json(text)));
    }
    tokens.*role.token = std::move(token);
  }
}

}  // namespace

SpecialTokens SpecialTokens::find(const Tokenizer& tokenizer, const std::string& path) {
  SpecialTokens tokens;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    read_file(folder / name, tokenizer, tokens);
  }
  std::vector<int32_t> around;
  tokenizer.encode_ids("", /*add_special_tokens=*/true, around);
  if (!around.empty()) {
    if (!tokens.cls && around.size() > 1) tokens.cls = tokenizer.token_of(around.front());
    if (!tokens.sep) tokens.sep = tokenizer.token_of(around.back());
  }
  for (const Role& role : kRoles) {
    for (const char* name : role.usual) {
      if (!(tokens.*role.token) && name != nullptr && tokenizer.id_of(name)) tokens.*role.token = name;
    }
  }
  if (!tokens.bos) tokens.bos = tokens.cls;
  if (!tokens.eos) tokens.eos = tokens.sep;
  return tokens;
}

std::vector<int32_t> SpecialTokens::ids(const Tokenizer& tokenizer) const {
  std::set<int32_t> ids;
  for (const Role& role : kRoles) {
    if (const auto& token = this->*role.token) ids.insert(tokenizer.id_of(*token).value());
  }
  return {ids.begin(), ids.end()};
}

}  // namespace millrace
