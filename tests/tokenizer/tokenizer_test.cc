#include "millrace/tokenizer/tokenizer.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "tests/support/places.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

namespace millrace::tokenizer_test {
namespace {

using nlohmann::json;
using test::read_file;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

const std::string kMlm = test::data_path("tokenizer/mlm/tokenizer.json");
const std::string kBpe = test::data_path("tokenizer/bpe/tokenizer.json");
const std::string kRoberta = test::data_path("tokenizer/roberta/tokenizer.json");
const std::string kAddedTokens = test::data_path("tokenizer/added_tokens/tokenizer.json");

// The error that loading the file gives after a change; empty when it loads.
template <typename Change>
std::string error_after(const Change& change, const std::string& path = kMlm) {
  json document = json::parse(read_file(path));
  change(document);
  try {
    (void)Tokenizer::from_json(document.dump(), "t.json");
    return "";
  } catch (const ErrorException& error) {
    EXPECT_EQ(error.error().code, ErrorCode::kParse);
    return error.error().message;
  }
}

TEST(Tokenizer, LoadsAFileThatDidNotChange) {
  EXPECT_EQ(error_after([](json&) {}), "");
}

TEST(Tokenizer, NamesThePlaceOfAComponentThatItDoesNotHave) {
  EXPECT_EQ(error_after([](json& file) {
              file["normalizer"]["normalizers"][1] = {{"type", "Uppercase"}};
            }),
            "t.json: normalizer.normalizers[1].type: no normalizer 'Uppercase'; there are BertNormalizer, ByteLevel, "
            "Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, Replace, Sequence, Strip and StripAccents");
  EXPECT_EQ(error_after([](json& file) {
              file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Letters"}}}}};
            }),
            "t.json: pre_tokenizer.pretokenizers[0].type: no pre-tokenizer 'Letters'; there are BertPreTokenizer, "
            "ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, Punctuation, Sequence, Split, "
            "UnicodeScripts, Whitespace and WhitespaceSplit");
  EXPECT_EQ(error_after([](json& file) { file["model"]["type"] = "Characters"; }),
            "t.json: model.type: no model 'Characters'; there are BPE, Unigram, WordLevel and WordPiece");
  EXPECT_EQ(error_after([](json& file) {
              file["model"].erase("type");
              file["model"]["vocab"] = json::object({{"a", 0}});
            }),
            "t.json: model: 'type' is missing, and its members are those of no model");
  EXPECT_EQ(error_after([](json& file) { file["post_processor"]["type"] = "GptProcessing"; }),
            "t.json: post_processor.type: no post-processor 'GptProcessing'; there are BertProcessing, ByteLevel, "
            "RobertaProcessing, Sequence and TemplateProcessing");
  EXPECT_EQ(error_after([](json& file) { file["decoder"]["type"] = "Unigram"; }),
            "t.json: decoder.type: no decoder 'Unigram'; there are BPEDecoder, ByteFallback, ByteLevel, CTC, Fuse, "
            "Metaspace, Replace, Sequence, Strip and WordPiece");
}

TEST(Tokenizer, RefusesOptionsThatItWouldIgnore) {
  EXPECT_EQ(error_after([](json& file) { file["pre_tokenizer"]["colour"] = 1; }),
            "t.json: pre_tokenizer.colour: unknown option");
  EXPECT_EQ(error_after([](json& file) { file["more"] = nullptr; }), "t.json: more: unknown option");
  EXPECT_EQ(error_after([](json& file) { file["truncation"] = json::object(); }),
            "t.json: truncation: 'max_length' is missing");
  EXPECT_EQ(error_after([](json& file) {
              file["padding"] = {{"strategy", "Longest"}};
            }),
            "t.json: padding.strategy: expected 'BatchLongest' or a Fixed length, found 'Longest'");
  EXPECT_EQ(error_after([](json& file) { file["model"]["alpha"] = 0.1; }), "t.json: model.alpha: unknown option");
  EXPECT_EQ(
      error_after([](json& file) {
        file["normalizer"]["normalizers"][0]["pattern"] = {{"Regex", "a("}};
      }),
      "t.json: normalizer.normalizers[0].pattern.Regex: 'a(' is no regular expression: end pattern with unmatched "
      "parenthesis");
  EXPECT_EQ(error_after([](json& file) {
              file["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}};
            }),
            "t.json: normalizer.precompiled_charsmap: is not the table of a sentencepiece normalizer");
}

TEST(Tokenizer, MayLackAVersion) {
  EXPECT_EQ(error_after([](json& file) { file.erase("version"); }), "");
}

TEST(Tokenizer, NamesThePlaceOfWhatIsWrongInAFile) {
  EXPECT_EQ(error_after([](json& file) { file.erase("model"); }), "t.json: 'model' is missing");
  EXPECT_EQ(error_after([](json& file) { file["version"] = "2.0"; }), "t.json: version: expected '1.0', found '2.0'");
  EXPECT_EQ(error_after([](json& file) { file["model"]["vocab"][7] = {"▁race"}; }),
            "t.json: model.vocab[7]: expected a piece and its score");
  EXPECT_EQ(error_after([](json& file) { file["model"]["vocab"] = json::array(); }), "t.json: model.vocab: no pieces");
  EXPECT_EQ(error_after([](json& file) { file["model"]["unk_id"] = 1000; }),
            "t.json: model.unk_id: is 1000, but there are 50 pieces");
  EXPECT_EQ(error_after([](json& file) { file["pre_tokenizer"]["prepend_scheme"] = "often"; }),
            "t.json: pre_tokenizer.prepend_scheme: expected 'always', 'first' or 'never', found 'often'");
  EXPECT_EQ(error_after([](json& file) { file["pre_tokenizer"]["replacement"] = "__"; }),
            "t.json: pre_tokenizer.replacement: expected one character, found '__'");
  EXPECT_EQ(error_after([](json& file) { file["post_processor"]["special_tokens"].erase("[SEP]"); }),
            "t.json: post_processor.special_tokens: '[SEP]' is missing");
  EXPECT_EQ(error_after([](json& file) { file["post_processor"]["pair"].erase(3); }),
            "t.json: post_processor.pair: has text B 0 times, expected it once");
  EXPECT_EQ(error_after([](json& file) { file["added_tokens"][0]["id"] = 3; }),
            "t.json: added_tokens[0].id: is 3, but '[CLS]' has in the model's vocabulary the id 0");
  EXPECT_EQ(error_after([](json& file) { file["added_tokens"][5]["id"] = 60; }, kAddedTokens),
            "t.json: added_tokens[5].id: is 60, but '<mark>' is the next after the model's vocabulary and must be 50");
}

TEST(Tokenizer, GivesATokenThatIsAddedAgainNoSecondId) {
  json file = json::parse(read_file(kMlm));
  file["added_tokens"].push_back({{"id", 50}, {"content", "<new>"}});
  file["added_tokens"].push_back({{"id", 51}, {"content", "<new>"}});
  file["added_tokens"].push_back({{"id", 51}, {"content", "<next>"}});
  const Tokenizer tokenizer = Tokenizer::from_json(file.dump());
  EXPECT_EQ(tokenizer.size(), 52);
  EXPECT_EQ(tokenizer.id_of("<new>"), 50);
  EXPECT_EQ(tokenizer.token_of(51), "<next>");
  EXPECT_THAT(tokenizer.encode("<new><next>", false).ids, ElementsAre(50, 51));
  file["added_tokens"].back()["id"] = 52;
  EXPECT_THAT([&] { (void)Tokenizer::from_json(file.dump(), "t.json"); },
              ::testing::ThrowsMessage<ErrorException>(
                  "parse: t.json: added_tokens[7].id: is 52, but '<next>' is the next after the model's vocabulary and "
                  "must be 51"));
}

TEST(Tokenizer, ReadsTheOlderFormOfMetaspace) {
  json file = json::parse(read_file(kMlm));
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"add_prefix_space", false}};
  const Tokenizer tokenizer = Tokenizer::from_json(file.dump());
  EXPECT_THAT(tokenizer.encode("mill mill", false).tokens, ElementsAre("mill", "▁mill"));
  file["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_THAT(Tokenizer::from_json(file.dump()).encode("mill", false).tokens, ElementsAre("▁mill"));
}

TEST(Tokenizer, SaysWhichFileItCannotRead) {
  EXPECT_THAT([] { (void)Tokenizer::load("/nowhere/tokenizer.json"); },
              ::testing::ThrowsMessage<ErrorException>(
                  "io: cannot read the tokenizer: No such file or directory (file /nowhere/tokenizer.json)"));
  EXPECT_THAT([] { (void)Tokenizer::from_json("{\"version\": ", "cut.json"); },
              ::testing::ThrowsMessage<ErrorException>("parse: cut.json: not JSON (byte 13)"));
  EXPECT_THAT([] { (void)Tokenizer::load("/"); },
              ::testing::ThrowsMessage<ErrorException>("io: cannot read the tokenizer: Is a directory (file /)"));
  EXPECT_THAT([] { (void)Tokenizer::load("/dev/null"); },
              ::testing::ThrowsMessage<ErrorException>("parse: /dev/null: not JSON (byte 1)"));
  EXPECT_THAT([] { (void)Tokenizer::from_json("[]", "list.json"); },
              ::testing::ThrowsMessage<ErrorException>("parse: list.json: expected an object, found array"));
}

TEST(Tokenizer, RefusesFilesThatWouldExhaustTheStackOrTheNumbers) {
  std::string nested;
  for (int i = 0; i < 10000; ++i) nested += R"({"type": "Sequence", "normalizers": [)";
  std::string closing;
  for (int i = 0; i < 10000; ++i) closing += "]}";
  EXPECT_THAT([&] { (void)Tokenizer::from_json("{\"version\": \"1.0\", \"normalizer\": " + nested + closing + "}"); },
              ::testing::ThrowsMessage<ErrorException>(::testing::HasSubstr("nested too deeply")));
  EXPECT_THAT([] { (void)Tokenizer::from_json("{\"version\": 1e999}", "t.json"); },
              ::testing::ThrowsMessage<ErrorException>(::testing::HasSubstr("t.json: not JSON (")));
  EXPECT_EQ(error_after([](json& file) { file["post_processor"]["special_tokens"]["[SEP]"]["ids"][0] = 50; }),
            "t.json: post_processor: '[SEP]' has the id 50; the vocabulary has 50");
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8WithItsOffset) {
  const Tokenizer tokenizer = Tokenizer::load(kMlm);
  EXPECT_THAT([&] { (void)tokenizer.encode("the mill\xff"); },
              ::testing::ThrowsMessage<ErrorException>("parse: the text is not UTF-8 (byte 0xff) (offset 8)"));
  EXPECT_THAT([&] { (void)tokenizer.encode_pair("the", "\xe2\x96"); },
              ::testing::ThrowsMessage<ErrorException>("parse: the text is not UTF-8 (byte 0xe2) (offset 0)"));
  std::vector<int32_t> ids;
  EXPECT_THROW(tokenizer.encode_ids("a\xc3", true, ids), ErrorException);
  EXPECT_THAT(ids, IsEmpty());
}

TEST(Tokenizer, KnowsItsVocabulary) {
  const Tokenizer tokenizer = Tokenizer::load(kAddedTokens);
  EXPECT_EQ(tokenizer.size(), 54);
  EXPECT_EQ(tokenizer.id_of("[MASK]"), 4);
  EXPECT_EQ(tokenizer.id_of("▁the"), 6);
  EXPECT_EQ(tokenizer.id_of("<mark>"), 50);
  EXPECT_EQ(tokenizer.id_of("nothing"), std::nullopt);
  for (int32_t id = 0; id < tokenizer.size(); ++id) EXPECT_EQ(tokenizer.id_of(tokenizer.token_of(id)), id);
  for (const int32_t id : {-1, 54}) {
    EXPECT_THAT([&] { (void)tokenizer.token_of(id); },
                ::testing::ThrowsMessage<ErrorException>("invalid_argument: no token has the id " + std::to_string(id) +
                                                         "; the vocabulary has 54"));
  }
}

TEST(Tokenizer, LeavesIdsOutsideTheVocabularyOutOfDecodedText) {
  const Tokenizer tokenizer = Tokenizer::load(kMlm);
  const std::vector<int32_t> ids = {0, 6, -1, 7, 4711, 1};
  EXPECT_EQ(tokenizer.decode(ids), "the mill");
  EXPECT_EQ(tokenizer.decode(ids, /*skip_special_tokens=*/false), "[CLS] the mill[SEP]");
}

// As a trainer writes it whose unknown token is one of its special tokens.
TEST(Tokenizer, SkipsBothIdsOfASpecialTokenThatTheVocabularyHasTwice) {
  json file = json::parse(read_file(kMlm));
  file["model"]["vocab"].push_back({"<unk>", -4.0});
  file["added_tokens"][2]["id"] = 50;
  const Tokenizer tokenizer = Tokenizer::from_json(file.dump());
  const TokenEncoding encoding = tokenizer.encode("the 水 mill <unk> é");
  EXPECT_THAT(encoding.ids, ElementsAre(0, 6, 5, 2, 7, 5, 50, 37, 1));
  EXPECT_EQ(tokenizer.decode(encoding.ids), "the  mill  é");
  EXPECT_EQ(tokenizer.decode(encoding.ids, /*skip_special_tokens=*/false), "[CLS] the <unk> mill <unk> é[SEP]");
}

TEST(Tokenizer, SavesAFileThatSaysTheSame) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/tokenizer.json";
  for (const std::string name : {"mlm", "added_tokens", "bare", "roberta", "t5", "bpe", "bert", "word_level"}) {
    const std::string original = test::data_path("tokenizer/") + name + "/tokenizer.json";
    Tokenizer::load(original).save(path);
    EXPECT_EQ(json::parse(read_file(path)), json::parse(read_file(original))) << name;
  }
  EXPECT_THROW(Tokenizer::load(kMlm).save("/nowhere/tokenizer.json"), ErrorException);
}

TEST(Tokenizer, CutsAndPadsAsItIsTold) {
  const Tokenizer plain = Tokenizer::load(kMlm);
  EXPECT_EQ(plain.truncation(), std::nullopt);
  const Tokenizer cut = plain.with_truncation(TokenTruncation{.max_length = 4});
  EXPECT_THAT(cut.encode("the mill race").tokens, ElementsAre("[CLS]", "▁the", "▁mill", "[SEP]"));
  const Tokenizer left = plain.with_truncation(TokenTruncation{.max_length = 4, .direction = TokenEnd::kLeft});
  EXPECT_THAT(left.encode("the mill race").tokens, ElementsAre("[CLS]", "▁mill", "▁race", "[SEP]"));
  const Tokenizer padded = cut.with_padding(TokenPadding{.length = 6, .pad_id = 3, .pad_token = "<pad>"});
  const TokenEncoding encoding = padded.encode("the mill race");
  EXPECT_THAT(encoding.ids, ElementsAre(0, 6, 7, 1, 3, 3));
  EXPECT_THAT(encoding.attention_mask, ElementsAre(1, 1, 1, 1, 0, 0));
  EXPECT_THAT(encoding.special_tokens_mask, ElementsAre(1, 0, 0, 1, 1, 1));
  EXPECT_EQ(Tokenizer::from_json(padded.to_json()).padding(), padded.padding());
  EXPECT_EQ(Tokenizer::from_json(padded.to_json()).truncation(), cut.truncation());
  std::vector<int32_t> ids;
  padded.encode_ids("the mill race", true, ids);
  EXPECT_EQ(ids, encoding.ids);
  EXPECT_THAT([&] { (void)plain.with_truncation(TokenTruncation{.max_length = 1}).encode("the"); },
              ::testing::ThrowsMessage<ErrorException>(
                  "invalid_argument: truncation.max_length is 1, but 2 special tokens are added to each text"));
}

TEST(Tokenizer, CutsThePairAsTheStrategySays) {
  const auto lengths = [](TokenTruncation::Strategy strategy, size_t first, size_t second) {
    return TokenTruncation{.max_length = 13, .strategy = strategy}.lengths(first, second, /*pair=*/true, 3);
  };
  using Strategy = TokenTruncation::Strategy;
  EXPECT_EQ(lengths(Strategy::kLongestFirst, 4, 6), std::pair(size_t{4}, size_t{6}));
  EXPECT_EQ(lengths(Strategy::kLongestFirst, 3, 20), std::pair(size_t{3}, size_t{7}));
  EXPECT_EQ(lengths(Strategy::kLongestFirst, 20, 3), std::pair(size_t{7}, size_t{3}));
  EXPECT_EQ(lengths(Strategy::kLongestFirst, 20, 20), std::pair(size_t{5}, size_t{5}));
  EXPECT_EQ(lengths(Strategy::kOnlyFirst, 20, 3), std::pair(size_t{7}, size_t{3}));
  EXPECT_EQ(lengths(Strategy::kOnlySecond, 4, 20), std::pair(size_t{4}, size_t{6}));
  EXPECT_THAT(
      [&] { lengths(Strategy::kOnlySecond, 20, 3); },
      ::testing::ThrowsMessage<ErrorException>(
          "invalid_argument: truncation.strategy OnlySecond cannot cut 13 tokens off the 3 of the second text"));
}

TEST(Tokenizer, EndsASearchThatWouldTakeForEver) {
  json file = json::parse(read_file(kMlm));
  file["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "(?:a|b|ab)*c"}}}, {"content", ""}};
  const Tokenizer tokenizer = Tokenizer::from_json(file.dump());
  EXPECT_EQ(tokenizer.encode("the", false).ids, Tokenizer::load(kMlm).encode("the", false).ids);
  std::string text;
  for (int i = 0; i < 99; ++i) text += "ab";
  EXPECT_THAT([&] { (void)tokenizer.encode(text + "dc"); },
              ::testing::ThrowsMessage<ErrorException>(::testing::HasSubstr("in a text of 200 bytes ended: ")));
}

TEST(Tokenizer, EndsReplacementsThatMultiplyATextAgainAndAgain) {
  json file = json::parse(read_file(kMlm));
  const json more = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(64, 'a')}};
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::vector<json>(60, more)}};
  const Tokenizer tokenizer = Tokenizer::from_json(file.dump());
  std::vector<int32_t> ids;
  EXPECT_THAT(
      [&] { tokenizer.encode_ids(std::string(1 << 10, 'a'), true, ids); },
      ::testing::ThrowsMessage<ErrorException>(::testing::HasSubstr("makes more than 67108864 bytes of a text")));
  file["normalizer"]["normalizers"] = std::vector<json>(60, {{"type", "ByteLevel"}});
  EXPECT_THAT([&] { Tokenizer::from_json(file.dump()).encode_ids("äöü", true, ids); },
              ::testing::ThrowsMessage<ErrorException>(::testing::HasSubstr("'ByteLevel' makes more than 67108864")));
  file["normalizer"] = nullptr;
  file["decoder"] = {{"type", "Sequence"},
                     {"decoders", std::vector<json>(60, {{"type", "BPEDecoder"}, {"suffix", ""}})}};
  EXPECT_THAT(
      [&] {
        (void)Tokenizer::from_json(file.dump()).decode(std::vector<int32_t>{6, 7});
      },
      ::testing::ThrowsMessage<ErrorException>(
          ::testing::HasSubstr("a sequence of decoders makes more than 67108864 bytes of a text")));
}

TEST(Tokenizer, LeavesOutAnAddedTokenWhoseTextTheOneBeforeTook) {
  json file = json::parse(read_file(kMlm));
  file["added_tokens"].push_back({{"id", 50}, {"content", "<x>"}, {"rstrip", true}, {"normalized", true}});
  file["added_tokens"].push_back({{"id", 51}, {"content", " "}, {"lstrip", true}, {"normalized", true}});
  const Tokenizer tokenizer = Tokenizer::from_json(file.dump());
  const TokenEncoding encoding = tokenizer.encode("<x> mill", false);
  EXPECT_THAT(encoding.tokens, ElementsAre("<x> ", "▁mill"));
  EXPECT_EQ(encoding.byte_offsets[1], (TextSpan{4, 8}));
  EXPECT_THAT(tokenizer.encode("mill <x>", false).tokens, ElementsAre("▁mill", " ", "<x>"));
}

TEST(Tokenizer, WithoutAnUnknownTokenRefusesWhatItCannotEncode) {
  json file = json::parse(read_file(kMlm));
  file["model"]["unk_id"] = nullptr;
  const Tokenizer tokenizer = Tokenizer::from_json(file.dump());
  EXPECT_THAT(tokenizer.encode("mill", false).tokens, ElementsAre("▁mill"));
  EXPECT_THAT([&] { (void)tokenizer.encode("millé水"); },
              ::testing::ThrowsMessage<ErrorException>("invalid_argument: '水' is not in the vocabulary, which has no "
                                                       "unknown token (model.unk_id)"));
}

TEST(Tokenizer, WithAnUnknownTokenOutsideTheVocabularyRefusesOnlyWhatItCannotEncode) {
  json file = json::parse(read_file(kBpe));
  file["truncation"] = nullptr;
  file["padding"] = nullptr;
  file["model"]["unk_token"] = "<nothing>";
  const Tokenizer tokenizer = Tokenizer::from_json(file.dump());
  EXPECT_THAT(tokenizer.encode("the \xee\x84\xa3 mill", false).ids, ElementsAre(314, 240, 135, 166, 309));  // its bytes
  // The vocabulary has no token for the first of its bytes.
  EXPECT_THAT([&] { (void)tokenizer.encode("the mill 水"); },
              ::testing::ThrowsMessage<ErrorException>("invalid_argument: '水' is not in the vocabulary, nor is the "
                                                       "unknown token '<nothing>' (model.unk_token)"));
  EXPECT_EQ(json::parse(tokenizer.to_json())["model"]["unk_token"], "<nothing>");
}

TEST(Tokenizer, ReadsTheOlderFormOfModelsOfWords) {
  for (const std::string name : {"bert", "word_level"}) {
    json file = json::parse(read_file(test::data_path("tokenizer/" + name + "/tokenizer.json")));
    const json with_type = file;
    file["model"].erase("type");
    EXPECT_EQ(json::parse(Tokenizer::from_json(file.dump()).to_json()), with_type);
    file["model"]["unk_token"] = "<nothing>";
    const Tokenizer tokenizer = Tokenizer::from_json(file.dump());
    EXPECT_THAT(tokenizer.encode("the", false).ids, ::testing::SizeIs(1));
    EXPECT_THAT([&] { (void)tokenizer.encode("the 木"); },
                ::testing::ThrowsMessage<ErrorException>(
                    ::testing::HasSubstr("nor is the unknown token '<nothing>' (model.unk_token)")));
  }
}

TEST(Tokenizer, ReadsMergesBehindTheLineOfTheirVersion) {
  json file = json::parse(read_file(kBpe));
  json merges = {"#version: 0.2"};
  for (const json& merge : file["model"]["merges"]) {
    merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  file["model"]["merges"] = merges;
  EXPECT_EQ(json::parse(Tokenizer::from_json(file.dump()).to_json()), json::parse(read_file(kBpe)));
  merges[0] = "version: 0.2";
  EXPECT_EQ(error_after([&](json& changed) { changed["model"]["merges"] = merges; }, kBpe),
            "t.json: model.merges[0]: 'version:' is not in the vocabulary");
}

// The special token that is first in an encoding by then is not part of it with TemplateProcessing.
TEST(Tokenizer, TrimsTheFirstTokenBehindRobertaProcessingAsAnyOther) {
  json file = json::parse(read_file(kRoberta));
  file["truncation"] = {{"max_length", 6}, {"strategy", "LongestFirst"}, {"stride", 0}, {"direction", "Left"}};
  const json roberta = {{"type", "RobertaProcessing"},
                        {"sep", {"</s>", 2}},
                        {"cls", {"<s>", 0}},
                        {"trim_offsets", false},
                        {"add_prefix_space", true}};
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}};
  const json frame = {
      {"type", "TemplateProcessing"},
      {"single", {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair", {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "B"}, {"type_id", 0}}}}}},
      {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {0}}, {"tokens", {"<s>"}}}}}}};
  const auto encode = [&](const std::vector<json>& processors, bool add_special_tokens, bool pair = false) {
    file["post_processor"] = {{"type", "Sequence"}, {"processors", processors}};
    const Tokenizer tokenizer = Tokenizer::from_json(file.dump());
    const std::string text = "the mill race the mill race the wheel the wheel";
    return (pair ? tokenizer.encode_pair(text, "mill race race race race race race", add_special_tokens)
                 : tokenizer.encode(text, add_special_tokens))
        .offsets;
  };
  const TextSpan none;
  EXPECT_THAT(encode({roberta, byte_level}, true),
              ElementsAre(none, TextSpan{28, 31}, TextSpan{32, 37}, TextSpan{38, 41}, TextSpan{42, 47}, none));
  EXPECT_THAT(encode({roberta, byte_level}, true, /*pair=*/true),
              ElementsAre(none, TextSpan{42, 47}, none, none, TextSpan{30, 34}, none));
  EXPECT_EQ(encode({roberta, byte_level}, false)[0], (TextSpan{17, 22}));
  EXPECT_EQ(encode({byte_level, roberta}, true)[1], (TextSpan{27, 31}));
  EXPECT_EQ(encode({frame, byte_level}, true)[1], (TextSpan{22, 27}));
  const json bert = {{"type", "BertProcessing"}, {"sep", {"</s>", 2}}, {"cls", {"<s>", 0}}};
  EXPECT_EQ(encode({bert, byte_level}, true)[1], (TextSpan{28, 31}));
  // The second text of a pair is behind a special token that is part of the first one.
  EXPECT_THAT(encode({bert, byte_level}, true, /*pair=*/true),
              ElementsAre(none, TextSpan{38, 41}, TextSpan{42, 47}, none, TextSpan{29, 34}, none));
  const json inner = {{"type", "Sequence"}, {"processors", {roberta}}};
  EXPECT_EQ(encode({inner, byte_level}, true)[1], (TextSpan{28, 31}));
}

// Bytes taken from malloc and not given back; 0 where a sanitizer replaces malloc.
int64_t heap_bytes() {
  if (test::kSanitized) return 0;
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

TEST(Tokenizer, KeepsLittleMemoryOfAHugeText) {
  constexpr size_t kWords = test::kSanitized ? 1 << 16 : 1 << 18;
  for (const std::string& path : {kMlm, kBpe}) {
    json file = json::parse(read_file(path));
    // One word of everything, in whose way all normalizers' buffers are.
    file["normalizer"] = {{"type", "Sequence"},
                          {"normalizers",
                           {{{"type", "NFKD"}},
                            {{"type", "Lowercase"}},
                            {{"type", "Replace"}, {"pattern", {{"String", "z"}}}, {"content", ""}}}}};
    file["pre_tokenizer"] = nullptr;
    file["truncation"] = nullptr;
    file["padding"] = nullptr;
    const Tokenizer tokenizer = Tokenizer::from_json(file.dump());
    std::string text = "zÄ";
    for (size_t i = 0; i < kWords; ++i) text += "the mill ";
    const auto encode = [&](std::string_view part) {
      const TokenEncoding encoding = tokenizer.encode(part);
      return encoding.ids.size();
    };
    encode("the mill");
    const int64_t before = heap_bytes();
    EXPECT_GT(encode(text), kWords);
    EXPECT_LT(heap_bytes() - before, int64_t{16} << 20) << path;  // 100 MiB and more were in use
  }
}

TEST(Tokenizer, GivesTheSameIdsOnManyThreads) {
  const Tokenizer tokenizer = Tokenizer::load(kMlm);
  const auto encode_all = [&] {
    std::vector<int32_t> ids;
    for (int i = 0; i < 300; ++i) {
      tokenizer.encode_ids("the water turns " + std::string(static_cast<size_t>(i % 40), 'a') + " [MASK]", true, ids);
    }
    return ids;
  };
  const std::vector<int32_t> expected = encode_all();
  std::vector<std::vector<int32_t>> found(4);
  std::vector<std::thread> threads;
  for (auto& ids : found) threads.emplace_back([&] { ids = encode_all(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& ids : found) EXPECT_EQ(ids, expected);
}

}  // namespace
}  // namespace millrace::tokenizer_test
