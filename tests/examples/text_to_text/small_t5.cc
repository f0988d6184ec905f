#include "tests/examples/text_to_text/small_t5.h"

#include <vector>

#include <fmt/format.h>

namespace millrace::test {

std::string small_t5_tokenizer_json() {
  std::vector<std::pair<std::string, double>> pieces = {{"<pad>", 0}, {"</s>", 0}, {"<unk>", 0}, {"\u2581", -2}};
  for (char letter = 'a'; letter <= 'z'; ++letter) pieces.emplace_back(std::string(1, letter), -3);
  for (const char* word : {"none", "low", "high"}) pieces.emplace_back(fmt::format("\u2581{}", word), -4);
  for (const char* extra : {"<extra_id_1>", "<extra_id_0>"}) pieces.emplace_back(extra, 0);
  std::string added;
  std::string vocabulary;
  for (size_t id = 0; id < pieces.size(); ++id) {
    const auto& [piece, score] = pieces[id];
    vocabulary += fmt::format(R"({}["{}", {:.1f}])", id == 0 ? "" : ", ", piece, score);
    if (piece.front() != '<') continue;
    added += fmt::format(R"({}{{"id": {}, "content": "{}", "single_word": false, "lstrip": false, "rstrip": false, )"
                         R"("normalized": false, "special": true}})",
                         id == 0 ? "" : ", ", id, piece);
  }
  return fmt::format(
      R"({{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [{}], "normalizer": null,
  "pre_tokenizer": {{"type": "Sequence", "pretokenizers": [{{"type": "WhitespaceSplit"}},
    {{"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": true}}]}},
  "post_processor": {{"type": "TemplateProcessing",
    "single": [{{"Sequence": {{"id": "A", "type_id": 0}}}}, {{"SpecialToken": {{"id": "</s>", "type_id": 0}}}}],
    "pair": [{{"Sequence": {{"id": "A", "type_id": 0}}}}, {{"Sequence": {{"id": "B", "type_id": 0}}}}],
    "special_tokens": {{"</s>": {{"id": "</s>", "ids": [1], "tokens": ["</s>"]}}}}}},
  "decoder": {{"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": true}},
  "model": {{"type": "Unigram", "unk_id": 2, "vocab": [{}], "byte_fallback": false}}}})",
      added, vocabulary);
}

}  // namespace millrace::test
