#include "tests/examples/mlm/preparation_text.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace::test {

std::vector<std::string> numbered_rows(int num_rows) {
  std::vector<std::string> rows;
  uint32_t state = 12345;
  const auto next = [&state] { return (state = state * 1664525 + 1013904223) >> 16; };
  for (int i = 0; i < num_rows; ++i) {
    std::string row(next() % 41, 'a');
    // Letters at the front of the alphabet are more frequent.
    for (char& letter : row) letter = static_cast<char>('a' + next() % (1 + next() % 26));
    rows.push_back(row);
  }
  return rows;
}

RowSource source_of(const std::vector<std::string>& rows) {
  return [&rows, next = size_t{0}]() mutable -> std::optional<std::string_view> {
    if (next == rows.size()) return std::nullopt;
    return rows[next++];
  };
}

RowEncoder letter_encoder() {
  return {.encode =
              [](std::string_view row, std::vector<int32_t>& ids) {
                ids.push_back(0);
                for (const char letter : row) ids.push_back(letter - 'a' + 5);
                ids.push_back(1);
              },
          .vocabulary_size = 32,
          .special_ids = {0, 1, 2, 3, 4}};
}

std::string letter_tokenizer_json() {
  std::string added;
  std::string vocabulary;
  for (const char* token : {"[CLS]", "[SEP]", "<unk>", "<pad>", "[MASK]"}) {
    added += fmt::format(R"({}{{"id": {}, "content": "{}", "single_word": false, "lstrip": false, "rstrip": false, )"
                         R"("normalized": false, "special": true}})",
                         added.empty() ? "" : ", ", std::count(added.begin(), added.end(), '{'), token);
    vocabulary += fmt::format(R"(["{}", 0.0], )", token);
  }
  vocabulary += R"(["\u2581", -2.0])";
  for (char letter = 'a'; letter <= 'z'; ++letter) vocabulary += fmt::format(R"(, ["{}", -3.0])", letter);
  return fmt::format(
      R"({{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [{}], "normalizer": null,
  "pre_tokenizer": {{"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": true}},
  "post_processor": {{"type": "TemplateProcessing",
    "single": [{{"SpecialToken": {{"id": "[CLS]", "type_id": 0}}}}, {{"Sequence": {{"id": "A", "type_id": 0}}}},
               {{"SpecialToken": {{"id": "[SEP]", "type_id": 0}}}}],
    "pair": [{{"Sequence": {{"id": "A", "type_id": 0}}}}, {{"Sequence": {{"id": "B", "type_id": 1}}}}],
    "special_tokens": {{"[CLS]": {{"id": "[CLS]", "ids": [0], "tokens": ["[CLS]"]}},
                       "[SEP]": {{"id": "[SEP]", "ids": [1], "tokens": ["[SEP]"]}}}}}},
  "decoder": {{"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": true}},
  "model": {{"type": "Unigram", "unk_id": 2, "vocab": [{}], "byte_fallback": false}}}})",
      added, vocabulary);
}

}  // namespace millrace::test
