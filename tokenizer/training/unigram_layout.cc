#include "millrace/tokenizer/training/unigram_layout.h"

#include <iterator>

#include <fmt/format.h>

namespace millrace {
namespace {

using nlohmann::ordered_json;

constexpr int32_t kMaskId = 4;

ordered_json added_token(int32_t id, const std::string& content, bool lstrip) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", lstrip},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

ordered_json special_piece(const std::string& token, int type_id) {
  return {{"SpecialToken", {{"id", token}, {"type_id", type_id}}}};
}

ordered_json text_piece(const char* name, int type_id) { return {{"Sequence", {{"id", name}, {"type_id", type_id}}}}; }

ordered_json template_token(int32_t id, const std::string& token) {
  return {{"id", token}, {"ids", ordered_json::array({id})}, {"tokens", ordered_json::array({token})}};
}

ordered_json metaspace() {
  return {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "always"}, {"split", true}};
}

ordered_json layout_json(ordered_json added_tokens, ordered_json normalizer, ordered_json pre_tokenizer,
                         ordered_json post_processor) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added_tokens)},
          {"normalizer", std::move(normalizer)},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", std::move(post_processor)},
          {"decoder", metaspace()},
          {"model",
           {{"type", "Unigram"},
            {"unk_id", kUnigramUnknownId},
            {"vocab", ordered_json::array()},
            {"byte_fallback", false}}}};
}

UnigramFile masked_lm_file() {
  const std::vector<std::string> tokens(std::begin(UnigramTrainer::kSpecialTokens),
                                        std::end(UnigramTrainer::kSpecialTokens));
  ordered_json added_tokens = ordered_json::array();
  for (int32_t id = 0; id < std::ssize(tokens); ++id) {
    // A mask stands for a word with the space before it, as words are cut.
    added_tokens.push_back(added_token(id, tokens[static_cast<size_t>(id)], id == kMaskId));
  }
  const auto replace_by_quote = [](const char* pattern) {
    return ordered_json{{"type", "Replace"}, {"pattern", {{"String", pattern}}}, {"content", "\""}};
  };
  const std::string& cls = tokens[0];
  const std::string& sep = tokens[1];
  ordered_json single = {special_piece(cls, 0), text_piece("A", 0), special_piece(sep, 0)};
  ordered_json pair = single;
  pair.push_back(text_piece("B", 1));
  pair.push_back(special_piece(sep, 1));
  return {.first = tokens,
          .last = {},
          .json = layout_json(std::move(added_tokens),
                              {{"type", "Sequence"},
                               {"normalizers", ordered_json::array({replace_by_quote("``"), replace_by_quote("''")})}},
                              metaspace(),
                              {{"type", "TemplateProcessing"},
                               {"single", std::move(single)},
                               {"pair", std::move(pair)},
                               {"special_tokens", {{cls, template_token(0, cls)}, {sep, template_token(1, sep)}}}}),
          .learning = {{"bos_id", "0"},
                       {"eos_id", "1"},
                       {"pad_id", "3"},
                       {"bos_piece", cls},
                       {"eos_piece", sep},
                       {"unk_piece", tokens[2]},
                       {"pad_piece", tokens[3]},
                       {"control_symbols", tokens[kMaskId]}}};
}

// As the converter of transformers writes a T5's: the highest id is that of <extra_id_0>.
UnigramFile t5_file(int32_t vocab_size) {
  UnigramFile file{.first = {"<pad>", "</s>", "<unk>"}, .last = {}, .json = {}, .learning = {}};
  for (int i = UnigramTrainer::kNumExtraIds - 1; i >= 0; --i) file.last.push_back(fmt::format("<extra_id_{}>", i));
  ordered_json added_tokens = ordered_json::array();
  for (int32_t id = 0; id < std::ssize(file.first); ++id) {
    added_tokens.push_back(added_token(id, file.first[static_cast<size_t>(id)], false));
  }
  int32_t id = vocab_size - static_cast<int32_t>(file.last.size());
  for (const std::string& token : file.last) added_tokens.push_back(added_token(id++, token, false));
  const std::string& end = file.first[1];
  ordered_json single = {text_piece("A", 0), special_piece(end, 0)};
  ordered_json pair = single;
  pair.push_back(text_piece("B", 0));
  pair.push_back(special_piece(end, 0));
  file.json = layout_json(
      std::move(added_tokens), {{"type", "NFKC"}},
      {{"type", "Sequence"}, {"pretokenizers", ordered_json::array({{{"type", "WhitespaceSplit"}}, metaspace()})}},
      {{"type", "TemplateProcessing"},
       {"single", std::move(single)},
       {"pair", std::move(pair)},
       {"special_tokens", {{end, template_token(1, end)}}}});
  file.learning = {{"bos_id", "-1"},
                   {"eos_id", "1"},
                   {"pad_id", "0"},
                   {"eos_piece", file.first[1]},
                   {"unk_piece", file.first[2]},
                   {"pad_piece", file.first[0]}};
  return file;
}

}  // namespace

UnigramFile unigram_file(UnigramLayout layout, int32_t vocab_size) {
  return layout == UnigramLayout::kT5 ? t5_file(vocab_size) : masked_lm_file();
}

}  // namespace millrace
