#include <fstream>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/tokenizer/decoders/decoder.h"
#include "millrace/tokenizer/models/model.h"
#include "millrace/tokenizer/normalizers/normalizer.h"
#include "millrace/tokenizer/post_processors/post_processor.h"
#include "millrace/tokenizer/pre_tokenizers/pre_tokenizer.h"
#include "millrace/tokenizer/tokenizer.h"
#include "tests/support/places.h"

namespace millrace::components_test {
namespace {

using nlohmann::json;
using ::testing::UnorderedElementsAre;

// The lines of a file that make_component_cases.py wrote.
std::vector<json> lines_of(const std::string& name) {
  std::ifstream file(test::data_path("tokenizer/components/" + name));
  std::vector<json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

std::set<std::string> types_of(const std::vector<json>& lines) {
  std::set<std::string> types;
  for (const json& line : lines) types.insert(line["component"]["type"].get<std::string>());
  return types;
}

json words_of(const WordedText& text) {
  json words = json::array();
  size_t begin = 0;
  for (const uint32_t end : text.word_ends) {
    const ByteSpan place = text.text.original(begin, end);
    words.push_back({text.text.text().substr(begin, end - begin), place.begin, place.end});
    begin = end;
  }
  return words;
}

// Each character of the normalized text as a word.
json characters_of(const AlignedText& text) {
  WordedText worded{text, {}};
  const std::string_view bytes = text.text();
  for (size_t at = 1; at <= bytes.size(); ++at) {
    if (at == bytes.size() || (static_cast<uint8_t>(bytes[at]) & 0xc0) != 0x80) {
      worded.word_ends.push_back(static_cast<uint32_t>(at));
    }
  }
  return words_of(worded);
}

AlignedText aligned(std::string_view text, bool tracking) {
  AlignedText made;
  made.clear(tracking);
  made.append_original(text, 0);
  return made;
}

TEST(Components, NormalizeAsThoseOfThePythonPackage) {
  const std::vector<json> lines = lines_of("normalizers.jsonl");
  EXPECT_THAT(types_of(lines),
              UnorderedElementsAre("BertNormalizer", "ByteLevel", "Nmt", "Prepend", "Sequence", "StripAccents"));
  for (const json& line : lines) {
    const auto normalizer = read_normalizer(JsonNode(line["component"], "t.json"));
    EXPECT_EQ(json(normalizer->to_json()), line["component"]);
    for (const json& one : line["cases"]) {
      const auto text = one[0].get<std::string>();
      AlignedText spare;
      AlignedText changed = aligned(text, /*tracking=*/true);
      normalizer->apply(changed, spare);
      EXPECT_EQ(characters_of(changed), one[1]) << line["component"] << " of '" << text << "'";
      EXPECT_EQ(normalizer->apply_to(text), changed.text());
    }
    EXPECT_EQ(normalizer->apply_to(""), "");
  }
}

TEST(Components, CutWordsAsThoseOfThePythonPackage) {
  const std::vector<json> lines = lines_of("pre_tokenizers.jsonl");
  EXPECT_THAT(types_of(lines), UnorderedElementsAre("BertPreTokenizer", "CharDelimiterSplit", "Digits", "FixedLength",
                                                    "Punctuation", "Sequence", "Split", "UnicodeScripts"));
  for (const json& line : lines) {
    const auto pre_tokenizer = read_pre_tokenizer(JsonNode(line["component"], "t.json"));
    for (const json& one : line["cases"]) {
      const auto text = one[0].get<std::string>();
      WordedText spare;
      WordedText words{aligned(text, /*tracking=*/true), {static_cast<uint32_t>(text.size())}};
      pre_tokenizer->apply(words, spare);
      EXPECT_EQ(words_of(words), one[1]) << line["component"] << " of '" << text << "'";
      WordedText untracked{aligned(text, /*tracking=*/false), {static_cast<uint32_t>(text.size())}};
      pre_tokenizer->apply(untracked, spare);
      EXPECT_EQ(untracked.text.text(), words.text.text());
      EXPECT_EQ(untracked.word_ends, words.word_ends);
      // What comes next finds the text of no word.
      const std::string_view rest = words.text.text().substr(words.word_ends.empty() ? 0 : words.word_ends.back());
      EXPECT_EQ(rest, "") << line["component"] << " of '" << text << "'";
    }
    const json written = pre_tokenizer->to_json();
    for (const auto& [name, value] : line["component"].items()) EXPECT_EQ(written.at(name), value);
    EXPECT_EQ(json(read_pre_tokenizer(JsonNode(written, "t.json"))->to_json()), written);
  }
}

TEST(Components, DecodeAsThoseOfThePythonPackage) {
  const std::vector<json> lines = lines_of("decoders.jsonl");
  EXPECT_THAT(types_of(lines),
              UnorderedElementsAre("BPEDecoder", "ByteFallback", "CTC", "Fuse", "Sequence", "Strip", "WordPiece"));
  for (const json& line : lines) {
    const auto decoder = read_decoder(JsonNode(line["component"], "t.json"));
    EXPECT_EQ(json(decoder->to_json()), line["component"]);
    for (const json& one : line["cases"]) {
      auto pieces = one[0].get<std::vector<std::string>>();
      decoder->apply(pieces);
      EXPECT_EQ(fmt::format("{}", fmt::join(pieces, "")), one[1]) << line["component"] << " of " << one[0];
    }
  }
}

// Given several times, with other flags, or alike after the normalizer.
TEST(Components, FindAddedTokensThatClashAsThePythonPackageDoes) {
  const std::vector<json> lines = lines_of("added_tokens.jsonl");
  EXPECT_GT(lines.size(), 100U);
  for (const json& line : lines) {
    const json& component = line["component"];
    const auto vocabulary = component["vocabulary"].get<std::vector<std::string>>();
    json model = {{"type", "BPE"}, {"merges", json::array()}, {"unk_token", "<unk>"}, {"vocab", json::object()}};
    for (const std::string& token : vocabulary) model["vocab"][token] = model["vocab"].size();
    const json file = {
        {"normalizer", component["normalizer"]}, {"added_tokens", component["added_tokens"]}, {"model", model}};
    const Tokenizer read = Tokenizer::from_json(file.dump());
    for (const Tokenizer& tokenizer : {read, Tokenizer::from_json(read.to_json())}) {
      for (const json& one : line["cases"]) {
        const TokenEncoding encoding = tokenizer.encode(one[0].get<std::string>());
        EXPECT_EQ(json(encoding.ids), one[1]) << component["added_tokens"] << " in " << one[0];
        EXPECT_EQ(json(encoding.tokens), one[2]) << component["added_tokens"] << " in " << one[0];
        EXPECT_EQ(json(tokenizer.decode(encoding.ids)), one[3]) << component["added_tokens"] << " in " << one[0];
      }
    }
  }
}

// With the members that the package writes.
TEST(Components, AreAllThoseOfVersion021OfThePythonPackage) {
  const auto read_all = [](const auto& read, const json& components) {
    for (const json& literal : components) {
      const json component = json::parse(literal.dump());  // numbers as a file has them
      EXPECT_EQ(json(read(JsonNode(component, "t.json"))->to_json()), component);
    }
  };
  const json pattern = {{"String", "-"}};
  const json metaspace = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}, {"split", true}};
  const json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  read_all(read_normalizer, {{{"type", "BertNormalizer"},
                              {"clean_text", true},
                              {"handle_chinese_chars", true},
                              {"strip_accents", nullptr},
                              {"lowercase", true}},
                             {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}},
                             {{"type", "StripAccents"}},
                             {{"type", "NFC"}},
                             {{"type", "NFD"}},
                             {{"type", "NFKC"}},
                             {{"type", "NFKD"}},
                             {{"type", "Sequence"}, {"normalizers", json::array()}},
                             {{"type", "Lowercase"}},
                             {{"type", "Nmt"}},
                             {{"type", "Precompiled"}, {"precompiled_charsmap", "BAAAAAAAAAAA"}},
                             {{"type", "Replace"}, {"pattern", pattern}, {"content", ""}},
                             {{"type", "Prepend"}, {"prepend", "▁"}},
                             {{"type", "ByteLevel"}}});
  read_all(read_pre_tokenizer, {{{"type", "BertPreTokenizer"}},
                                byte_level,
                                {{"type", "CharDelimiterSplit"}, {"delimiter", "-"}},
                                metaspace,
                                {{"type", "Whitespace"}},
                                {{"type", "Sequence"}, {"pretokenizers", json::array()}},
                                {{"type", "Split"}, {"pattern", pattern}, {"behavior", "Removed"}, {"invert", false}},
                                {{"type", "Punctuation"}, {"behavior", "Isolated"}},
                                {{"type", "WhitespaceSplit"}},
                                {{"type", "Digits"}, {"individual_digits", false}},
                                {{"type", "UnicodeScripts"}},
                                {{"type", "FixedLength"}, {"length", 5}}});
  const json vocabulary = {{"a", 0}};
  read_all(read_model, {{{"type", "BPE"},
                         {"dropout", nullptr},
                         {"unk_token", nullptr},
                         {"continuing_subword_prefix", nullptr},
                         {"end_of_word_suffix", nullptr},
                         {"fuse_unk", false},
                         {"byte_fallback", false},
                         {"ignore_merges", false},
                         {"vocab", vocabulary},
                         {"merges", json::array()}},
                        {{"type", "WordPiece"},
                         {"unk_token", "[UNK]"},
                         {"continuing_subword_prefix", "##"},
                         {"max_input_chars_per_word", 100},
                         {"vocab", vocabulary}},
                        {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "<unk>"}},
                        {{"type", "Unigram"},
                         {"unk_id", nullptr},
                         {"vocab", json::array({json::array({"a", 0.0})})},
                         {"byte_fallback", false}}});
  const json cls = json::array({"[CLS]", 0});
  const json sep = json::array({"[SEP]", 1});
  const json text_a = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json text_b = {{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  read_all(
      read_post_processor,
      {{{"type", "RobertaProcessing"}, {"sep", sep}, {"cls", cls}, {"trim_offsets", true}, {"add_prefix_space", true}},
       {{"type", "BertProcessing"}, {"sep", sep}, {"cls", cls}},
       byte_level,
       {{"type", "TemplateProcessing"},
        {"single", json::array({text_a})},
        {"pair", json::array({text_a, text_b})},
        {"special_tokens", json::object()}},
       {{"type", "Sequence"}, {"processors", json::array()}}});
  read_all(read_decoder, {{{"type", "BPEDecoder"}, {"suffix", "</w>"}},
                          byte_level,
                          {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}},
                          metaspace,
                          {{"type", "CTC"}, {"pad_token", "<pad>"}, {"word_delimiter_token", "|"}, {"cleanup", true}},
                          {{"type", "Sequence"}, {"decoders", json::array()}},
                          {{"type", "Replace"}, {"pattern", pattern}, {"content", ""}},
                          {{"type", "Fuse"}},
                          {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}},
                          {{"type", "ByteFallback"}}});
}

// The error of reading a component.
template <typename Read>
std::string error_of(const Read& read, const char* text) {
  const json component = json::parse(text);
  try {
    (void)read(JsonNode(component, "t.json"));
    return "";
  } catch (const ErrorException& error) {
    EXPECT_EQ(error.error().code, ErrorCode::kParse);
    return error.error().message;
  }
}

TEST(Components, NormalizersNameWhatIsWrongInThem) {
  const auto error = [](const char* text) { return error_of(read_normalizer, text); };
  EXPECT_EQ(error(R"({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true})"),
            "t.json: 'lowercase' is missing");
  EXPECT_EQ(error(R"({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "lowercase": 1})"),
            "t.json: lowercase: expected true or false, found number");
  EXPECT_EQ(error(R"({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "lowercase": true})"),
            "");
  EXPECT_EQ(error(R"({"type": "Prepend"})"), "t.json: 'prepend' is missing");
  EXPECT_EQ(error(R"({"type": "Nmt", "map": {}})"), "t.json: map: unknown option");
  EXPECT_EQ(error(R"({"type": "StripAccents", "form": "NFD"})"), "t.json: form: unknown option");
  EXPECT_EQ(error(R"({"type": "ByteLevel", "add_prefix_space": true})"), "t.json: add_prefix_space: unknown option");
}

TEST(Components, PreTokenizersNameWhatIsWrongInThem) {
  const auto error = [](const char* text) { return error_of(read_pre_tokenizer, text); };
  EXPECT_EQ(error(R"({"type": "Split", "pattern": {"String": " "}, "behavior": "removed", "invert": false})"),
            "t.json: behavior: expected Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous, found "
            "'removed'");
  EXPECT_EQ(error(R"({"type": "Split", "pattern": {"String": " "}, "behavior": "Removed"})"),
            "t.json: 'invert' is missing");
  EXPECT_EQ(error(R"({"type": "Split", "pattern": {"Regex": "a("}, "behavior": "Removed", "invert": false})"),
            "t.json: pattern.Regex: 'a(' is no regular expression: end pattern with unmatched parenthesis");
  EXPECT_EQ(error(R"({"type": "Digits"})"), "t.json: 'individual_digits' is missing");
  EXPECT_EQ(
      error(R"({"type": "Punctuation", "behavior": "None"})"),
      "t.json: behavior: expected Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous, found 'None'");
  EXPECT_EQ(error(R"({"type": "CharDelimiterSplit", "delimiter": "ab"})"),
            "t.json: delimiter: expected one character, found 'ab'");
  EXPECT_EQ(error(R"({"type": "FixedLength", "length": 0})"), "t.json: length: is 0, must be above");
  EXPECT_EQ(error(R"({"type": "UnicodeScripts", "version": 9})"), "t.json: version: unknown option");
  EXPECT_EQ(error(R"({"type": "BertPreTokenizer", "never_split": []})"), "t.json: never_split: unknown option");
}

TEST(Components, DecodersAndPostProcessorsNameWhatIsWrongInThem) {
  const auto decoder_error = [](const char* text) { return error_of(read_decoder, text); };
  EXPECT_EQ(decoder_error(R"({"type": "WordPiece", "prefix": "##"})"), "t.json: 'cleanup' is missing");
  EXPECT_EQ(decoder_error(R"({"type": "CTC", "pad_token": "<pad>", "cleanup": true})"),
            "t.json: 'word_delimiter_token' is missing");
  EXPECT_EQ(decoder_error(R"({"type": "BPEDecoder", "suffix": null})"),
            "t.json: suffix: expected a string, found null");
  EXPECT_EQ(decoder_error(R"({"type": "BPEDecoder", "suffix": "</w>", "prefix": ""})"),
            "t.json: prefix: unknown option");
  const auto processor_error = [](const char* text) { return error_of(read_post_processor, text); };
  EXPECT_EQ(processor_error(R"({"type": "BertProcessing", "sep": ["[SEP]", 1]})"), "t.json: 'cls' is missing");
  EXPECT_EQ(processor_error(R"({"type": "BertProcessing", "sep": ["[SEP]"], "cls": ["[CLS]", 0]})"),
            "t.json: sep: expected a token and its id");
  EXPECT_EQ(processor_error(R"({"type": "BertProcessing", "sep": ["[SEP]", 1], "cls": ["[CLS]", -1]})"),
            "t.json: cls[1]: expected an id, found -1");
}

}  // namespace
}  // namespace millrace::components_test
