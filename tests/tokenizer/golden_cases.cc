#include "tests/tokenizer/golden_cases.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/tokenizer/tokenizer.h"

namespace millrace::test {
namespace {

using nlohmann::json;

json to_json(const std::vector<TextSpan>& spans) {
  json pairs = json::array();
  for (const TextSpan& span : spans) pairs.push_back({span.begin, span.end});
  return pairs;
}

json ids_alone(const Tokenizer& tokenizer, const std::string& text, bool add_special_tokens) {
  // What is there must stay.
  std::vector<int32_t> ids = {-7};
  tokenizer.encode_ids(text, add_special_tokens, ids);
  if (ids[0] != -7) return "encode_ids changed what was there";
  return std::vector<int32_t>(ids.begin() + 1, ids.end());
}

// All fields that we can give for a case, named as in the lines of a folder.
json encode_case(const Tokenizer& tokenizer, const json& expected) {
  const auto text = expected.at("text").get<std::string>();
  const bool is_pair = expected.contains("pair");
  const TokenEncoding encoding =
      is_pair ? tokenizer.encode_pair(text, expected["pair"].get<std::string>()) : tokenizer.encode(text);
  json found = {{"ids", encoding.ids},
                {"tokens", encoding.tokens},
                {"type_ids", encoding.type_ids},
                {"special_tokens_mask", encoding.special_tokens_mask},
                {"attention_mask", encoding.attention_mask},
                {"offsets", to_json(encoding.offsets)},
                {"byte_offsets", to_json(encoding.byte_offsets)},
                {"decoded", tokenizer.decode(encoding.ids)},
                {"decoded_with_special", tokenizer.decode(encoding.ids, /*skip_special_tokens=*/false)},
                {"text", text}};
  if (is_pair) {
    found["pair"] = expected["pair"];
  } else {
    found["ids_no_special"] = tokenizer.encode(text, /*add_special_tokens=*/false).ids;
  }
  return found;
}

// Compares a line; returns whether it was a pair.
bool check_line(const Tokenizer& tokenizer, const std::string& place, const json& expected, TokenizerReport& report) {
  const json found = encode_case(tokenizer, expected);
  const auto fail = [&](const std::string& field, const json& wanted, const json& got) {
    report.failures.push_back(fmt::format("{}: {}: expected {}, found {}", place, field, wanted.dump(), got.dump()));
  };
  for (const auto& [field, value] : expected.items()) {
    if (!found.contains(field)) {
      fail(field, value, "nothing that this test compares");
    } else if (found[field] != value) {
      fail(field, value, found[field]);
    }
  }
  if (expected.contains("pair")) return true;
  const auto text = expected.at("text").get<std::string>();
  for (const auto& [special, field] : {std::pair(true, "ids"), std::pair(false, "ids_no_special")}) {
    if (!expected.contains(field)) continue;
    const json ids = ids_alone(tokenizer, text, special);
    if (ids != expected[field]) fail(fmt::format("encode_ids of {}", field), expected[field], ids);
  }
  return false;
}

void rename(json& object, const std::string& from, const std::string& to) {
  if (!object.contains(from)) return;
  object[to] = object[from];
  object.erase(from);
}

json parse_json(std::istream& file, const std::string& name) {
  try {
    return json::parse(file);
  } catch (const json::exception& error) {
    throw ErrorException(ErrorCode::kParse, fmt::format("{}: {}", name, error.what()));
  }
}

void check_file(const Tokenizer& tokenizer, const std::filesystem::path& path, TokenizerReport& report) {
  std::ifstream file(path);
  if (!file) throw ErrorException(ErrorCode::kIo, fmt::format("cannot read '{}'", path.string()));
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    const bool pair = check_line(tokenizer, fmt::format("{}:{}", path.string(), ++number), json::parse(line), report);
    ++(pair ? report.num_pairs : report.num_texts);
  }
}

}  // namespace

TokenizerReport check_tokenizer_cases(const std::string& folder) {
  constexpr std::string_view kName = "tokenizer.json";
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().ends_with(kName)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  if (names.empty()) throw ErrorException(ErrorCode::kIo, fmt::format("no tokenizer.json in '{}'", folder));
  TokenizerReport report;
  for (const std::string& name : names) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    const std::string prefix = name.substr(0, name.size() - kName.size());
    const Tokenizer read = Tokenizer::load(path.string());
    // What is written must say the same.
    for (const Tokenizer& tokenizer : {read, Tokenizer::from_json(read.to_json(), name + ", written again")}) {
      check_file(tokenizer, path.parent_path() / (prefix + "encodings.jsonl"), report);
      check_file(tokenizer, path.parent_path() / (prefix + "pairs.jsonl"), report);
    }
    ++report.num_tokenizers;
  }
  return report;
}

TokenizerReport check_tokenizer_file(const std::string& path) {
  constexpr std::string_view kExtension = ".json";
  if (!path.ends_with(kExtension)) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("'{}' does not end with {}", path, kExtension));
  }
  const std::string expected_path = path.substr(0, path.size() - kExtension.size()) + ".expected.json";
  std::ifstream file(expected_path);
  if (!file) throw ErrorException(ErrorCode::kIo, fmt::format("cannot read '{}'", expected_path));
  const json cases = parse_json(file, expected_path);
  if (!cases.is_array()) {
    throw ErrorException(ErrorCode::kParse, fmt::format("{}: expected an array of cases", expected_path));
  }
  TokenizerReport report{.num_tokenizers = 1};
  const Tokenizer read = Tokenizer::load(path);
  // What is written must say the same.
  for (const Tokenizer& tokenizer : {read, Tokenizer::from_json(read.to_json(), path + ", written again")}) {
    for (size_t i = 0; i < cases.size(); ++i) {
      json expected = cases[i];
      const std::string place = fmt::format("{}[{}]", expected_path, i);
      if (!expected.is_object() || !expected.contains("text") || !expected["text"].is_string()) {
        throw ErrorException(ErrorCode::kParse, fmt::format("{}: expected a case with a text", place));
      }
      // As these files name them.
      rename(expected, "decoded", "decoded_with_special");
      rename(expected, "decoded_skip", "decoded");
      ++(check_line(tokenizer, place, expected, report) ? report.num_pairs : report.num_texts);
    }
  }
  return report;
}

}  // namespace millrace::test
