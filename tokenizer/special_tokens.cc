#include "millrace/tokenizer/special_tokens.h"

#include <array>
#include <filesystem>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/storage/remote/routed_storage.h"

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

// Whether a file has said what plays this part.
bool is_said(const SpecialTokens& tokens, const Role& role) {
  return tokens.*role.token || tokens.missing.contains(role.field);
}

// Fills in what the file says and is not known yet. A token stands there as a text, or as an object with its `content`.
void read_file(const std::filesystem::path& path, const Tokenizer& tokenizer, SpecialTokens& tokens) {
  const std::optional<std::string> bytes = find_whole_anywhere(path.string());
  if (!bytes) return;
  const nlohmann::json file = parse_json(*bytes, path.string());
  const auto refuse = [&path](std::string message) {
    throw ErrorException({.code = ErrorCode::kParse, .message = std::move(message), .shard = path.string()});
  };
  if (!file.is_object()) refuse("the file is not a JSON object");
  for (const Role& role : kRoles) {
    if (is_said(tokens, role) || !file.contains(role.field)) continue;
    const nlohmann::json& entry = file[role.field];
    if (entry.is_null()) continue;
    const nlohmann::json& text = entry.is_object() && entry.contains("content") ? entry["content"] : entry;
    if (!text.is_string()) refuse(fmt::format("{} is {}", role.field, shown_json(entry)));
    auto token = text.get<std::string>();
    if (tokenizer.id_of(token)) {
      tokens.*role.token = std::move(token);
    } else {
      tokens.missing[role.field] =
          fmt::format("{} says {}, which the tokenizer does not have", path.string(), shown_json(text));
    }
  }
}

// The first token that the tokenizer puts in front of a text, and the last one that it puts after it.
std::pair<std::optional<int32_t>, std::optional<int32_t>> around_a_text(const Tokenizer& tokenizer) {
  std::vector<int32_t> around;
  tokenizer.encode_ids("", /*add_special_tokens=*/true, around);
  if (around.empty()) return {};
  if (around.size() > 1) return {around.front(), around.back()};
  // One alone may stand on either side: a text says on which, where it can be encoded.
  try {
    std::vector<int32_t> text;
    tokenizer.encode_ids("a", /*add_special_tokens=*/true, text);
    if (text.size() < 2) return {};
    if (text.front() == around[0]) return {around[0], std::nullopt};
    return {std::nullopt, around[0]};
  } catch (const ErrorException&) {
    return {};
  }
}

}  // namespace

SpecialTokens SpecialTokens::find(const Tokenizer& tokenizer, const std::string& path) {
  SpecialTokens tokens;
  tokens.path = path;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    read_file(folder / name, tokenizer, tokens);
  }
  const auto [before, after] = around_a_text(tokenizer);
  for (const Role& role : kRoles) {
    if (is_said(tokens, role)) continue;
    auto& token = tokens.*role.token;
    if (role.token == &SpecialTokens::cls && before) token = tokenizer.token_of(*before);
    if (role.token == &SpecialTokens::sep && after) token = tokenizer.token_of(*after);
    for (const char* name : role.usual) {
      if (!token && name != nullptr && tokenizer.id_of(name)) token = name;
    }
    if (role.token == &SpecialTokens::bos) token = tokens.cls;
    if (role.token == &SpecialTokens::eos) token = tokens.sep;
  }
  return tokens;
}

int32_t SpecialTokens::id_of(const Tokenizer& tokenizer, std::string_view role) const {
  for (const Role& one : kRoles) {
    if (one.field != role) continue;
    if (const auto& token = this->*one.token) return tokenizer.id_of(*token).value();
  }
  const auto found = missing.find(std::string(role));
  throw ErrorException(ErrorCode::kInvalidArgument,
                       found != missing.end()
                           ? fmt::format("no {}: {}", role, found->second)
                           : fmt::format("nothing says which token of the tokenizer is its {} ({})", role, path));
}

std::vector<int32_t> SpecialTokens::ids(const Tokenizer& tokenizer) const {
  std::set<int32_t> ids;
  for (const Role& role : kRoles) {
    if (const auto& token = this->*role.token) ids.insert(tokenizer.id_of(*token).value());
  }
  return {ids.begin(), ids.end()};
}

}  // namespace millrace
