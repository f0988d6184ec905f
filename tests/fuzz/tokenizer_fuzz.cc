#include "tests/fuzz/tokenizer_fuzz.h"

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/utf8.h"
#include "millrace/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz_error.h"

namespace millrace::test {
namespace {

using nlohmann::json;

// The encoding, when the tokenizer has one for the text.
TokenEncoding encode_in_both_ways(const Tokenizer& tokenizer, std::string_view text) {
  const TokenEncoding encoding = tokenizer.encode(text);
  std::vector<int32_t> ids;
  tokenizer.encode_ids(text, /*add_special_tokens=*/true, ids);
  require(ids == encoding.ids);
  require(encoding.tokens.size() == ids.size() && encoding.type_ids.size() == ids.size());
  require(encoding.offsets.size() == ids.size() && encoding.byte_offsets.size() == ids.size());
  require(encoding.special_tokens_mask.size() == ids.size() && encoding.attention_mask.size() == ids.size());
  for (const TextSpan& bytes : encoding.byte_offsets) {
    require(0 <= bytes.begin && bytes.begin <= bytes.end && bytes.end <= static_cast<int64_t>(text.size()));
    require(is_valid_utf8(text.substr(static_cast<size_t>(bytes.begin), static_cast<size_t>(bytes.end - bytes.begin))));
  }
  (void)tokenizer.decode(ids);
  (void)tokenizer.decode(ids, /*skip_special_tokens=*/false);
  return encoding;
}

json component(const char* type, json members = json::object()) {
  members["type"] = type;
  return members;
}

json replace(const char* kind, const char* pattern, const char* content) {
  return component("Replace", {{"pattern", {{kind, pattern}}}, {"content", content}});
}

json file_of(json normalizer, json pre_tokenizer, json model, json decoder, json post_processor) {
  json added = json::array();
  for (const auto& [id, content, flag] : {std::tuple(1, "<mask>", "lstrip"), std::tuple(2, "aa", "single_word")}) {
    added.push_back({{"id", id}, {"content", content}, {flag, true}, {"normalized", id == 2}, {"special", id == 1}});
  }
  return {{"version", "1.0"},
          {"added_tokens", std::move(added)},
          {"normalizer", std::move(normalizer)},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"model", std::move(model)},
          {"decoder", std::move(decoder)},
          {"post_processor", std::move(post_processor)}};
}

std::vector<Tokenizer> tokenizers() {
  const json byte_level =
      component("ByteLevel", {{"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}});
  const json metaspace =
      component("Metaspace", {{"replacement", "\u2581"}, {"prepend_scheme", "first"}, {"split", true}});
  const json roberta =
      component("RobertaProcessing",
                {{"sep", {"<mask>", 1}}, {"cls", {"<unk>", 0}}, {"trim_offsets", true}, {"add_prefix_space", true}});
  const json bpe = component("BPE", {{"unk_token", "<unk>"},
                                     {"vocab", {{"<unk>", 0}, {"<mask>", 1}, {"aa", 2}, {"a", 3}, {"b", 4}, {"ab", 5}}},
                                     {"merges", json::array({"a b", "a a"})}});
  json pieces = json::parse(R"([["<unk>", 0.0], ["<mask>", 0.0], ["aa", -1.0], ["\u2581", -2.0], ["a", -3.0]])");
  for (int byte = 0; byte < 256; ++byte) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const auto digit = [&](int value) { return kDigits[static_cast<size_t>(value)]; };
    pieces.push_back({std::string("<0x") + digit(byte / 16) + digit(byte % 16) + ">", -9.0});
  }
  const json unigram = component("Unigram", {{"unk_id", 0}, {"vocab", pieces}, {"byte_fallback", true}});
  const auto sequence = [](const char* member, json list) {
    return component("Sequence", {{member, std::move(list)}});
  };
  const auto form = [](const char* name) { return component(name); };
  const json strip = component("Strip", {{"strip_left", true}, {"strip_right", false}});
  std::vector<Tokenizer> made;
  made.push_back(Tokenizer::from_json(file_of(nullptr, byte_level, bpe, byte_level, roberta).dump()));
  made.push_back(Tokenizer::from_json(
      file_of(sequence("normalizers",
                       {form("NFD"), form("Lowercase"), form("NFC"), strip, replace("Regex", "\\s+|b*", "ab")}),
              sequence("pretokenizers", {form("Whitespace"), form("WhitespaceSplit"), metaspace}), unigram,
              sequence("decoders", {replace("String", "\u2581", " "), form("ByteFallback"), form("Fuse")}), byte_level)
          .dump()));
  made.push_back(
      Tokenizer::from_json(file_of(sequence("normalizers", {form("NFKD"), form("NFKC")}),
                                   sequence("pretokenizers", {metaspace, byte_level}), bpe, metaspace, nullptr)
                               .dump()));
  const json word_piece =
      component("WordPiece", {{"unk_token", "<unk>"},
                              {"continuing_subword_prefix", "##"},
                              {"max_input_chars_per_word", 9},
                              {"vocab", {{"<unk>", 0}, {"<mask>", 1}, {"aa", 2}, {"a", 3}, {"##b", 4}, {"##a", 5}}}});
  const json bert_normalizer = component(
      "BertNormalizer",
      {{"clean_text", true}, {"handle_chinese_chars", true}, {"strip_accents", nullptr}, {"lowercase", true}});
  const json bert = component("BertProcessing", {{"sep", {"<mask>", 1}}, {"cls", {"<unk>", 0}}});
  made.push_back(Tokenizer::from_json(file_of(bert_normalizer, form("BertPreTokenizer"), word_piece,
                                              component("WordPiece", {{"prefix", "##"}, {"cleanup", true}}), bert)
                                          .dump()));
  const auto split = [](const char* kind, const char* pattern, const char* behavior) {
    return component("Split", {{"pattern", {{kind, pattern}}}, {"behavior", behavior}, {"invert", false}});
  };
  const json word_level =
      component("WordLevel", {{"unk_token", "<unk>"}, {"vocab", {{"<unk>", 0}, {"<mask>", 1}, {"aa", 2}}}});
  const json ctc = component("CTC", {{"pad_token", "a"}, {"word_delimiter_token", ""}, {"cleanup", true}});
  made.push_back(Tokenizer::from_json(
      file_of(sequence("normalizers", {form("Nmt"), form("NFKD"), form("StripAccents"),
                                       component("Prepend", {{"prepend", "a"}}), form("ByteLevel")}),
              sequence("pretokenizers", {split("Regex", "\\w*", "MergedWithNext"), split("String", "b", "Contiguous"),
                                         component("Digits", {{"individual_digits", true}}),
                                         component("Punctuation", {{"behavior", "MergedWithPrevious"}}),
                                         component("CharDelimiterSplit", {{"delimiter", "c"}}), form("UnicodeScripts"),
                                         component("FixedLength", {{"length", 3}})}),
              word_level, sequence("decoders", {component("BPEDecoder", {{"suffix", ""}}), ctc}), nullptr)
          .dump()));
  return made;
}

}  // namespace

void fuzz_tokenizer_file(std::string_view bytes) {
  try {
    const Tokenizer tokenizer = Tokenizer::from_json(std::string(bytes));
    const Tokenizer again = Tokenizer::from_json(tokenizer.to_json());
    require(again.to_json() == tokenizer.to_json());
    for (const std::string_view text : {"", " the ``mill'' [MASK] a\n", "\u65e5\u2581 e\u0301<mark>zz  \r\n"}) {
      const TokenEncoding encoding = encode_in_both_ways(tokenizer, text);
      require(again.encode(text).ids == encoding.ids);
      // A padding id is what the file says.
      if (!tokenizer.padding()) {
        for (const int32_t id : encoding.ids) (void)tokenizer.token_of(id);
      }
    }
  } catch (const ErrorException&) {
    // Most bytes are no tokenizer, and some tokenizers refuse a text.
  }
}

void fuzz_tokenizer_text(std::string_view bytes) {
  static const std::vector<Tokenizer> all = tokenizers();
  for (const Tokenizer& tokenizer : all) {
    if (!is_valid_utf8(bytes)) {
      bool refused = false;
      try {
        (void)tokenizer.encode(bytes);
      } catch (const ErrorException&) {
        refused = true;
      }
      require(refused);
      continue;
    }
    const TokenEncoding encoding = encode_in_both_ways(tokenizer, bytes);
    require(encode_in_both_ways(tokenizer, bytes).ids == encoding.ids);
  }
}

}  // namespace millrace::test
