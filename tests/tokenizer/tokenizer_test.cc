#include "tokenizer/tokenizer.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "tests/support/temporary_folder.h"

namespace millrace {
namespace {

using nlohmann::json;
using test::read_file;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

const std::string kMlm = std::string(MILLRACE_TEST_DATA) + "/tokenizer/mlm/tokenizer.json";
const std::string kAddedTokens = std::string(MILLRACE_TEST_DATA) + "/tokenizer/added_tokens/tokenizer.json";

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
              file["normalizer"]["normalizers"][1] = {{"type", "Lowercase"}};
            }),
            "t.json: normalizer.normalizers[1].type: no normalizer 'Lowercase'; there are Replace and Sequence");
  EXPECT_EQ(error_after([](json& file) { file["pre_tokenizer"]["type"] = "Whitespace"; }),
            "t.json: pre_tokenizer.type: no pre-tokenizer 'Whitespace'; there is Metaspace");
  EXPECT_EQ(error_after([](json& file) { file["model"]["type"] = "WordPiece"; }),
            "t.json: model.type: no model 'WordPiece'; there is Unigram");
  EXPECT_EQ(error_after([](json& file) { file["post_processor"]["type"] = "BertProcessing"; }),
            "t.json: post_processor.type: no post-processor 'BertProcessing'; there is TemplateProcessing");
  EXPECT_EQ(error_after([](json& file) { file["decoder"]["type"] = "Fuse"; }),
            "t.json: decoder.type: no decoder 'Fuse'; there is Metaspace");
}

TEST(Tokenizer, RefusesOptionsThatItWouldIgnore) {
  EXPECT_EQ(error_after([](json& file) { file["pre_tokenizer"]["colour"] = 1; }),
            "t.json: pre_tokenizer.colour: unknown option");
  EXPECT_EQ(error_after([](json& file) { file["more"] = nullptr; }), "t.json: more: unknown option");
  EXPECT_EQ(error_after([](json& file) { file["truncation"] = json::object(); }),
            "t.json: truncation: must be null: lengths are the caller's");
  EXPECT_EQ(error_after([](json& file) { file["model"]["byte_fallback"] = true; }),
            "t.json: model.byte_fallback: pieces for single bytes are not supported");
  EXPECT_EQ(error_after([](json& file) { file["added_tokens"][4]["single_word"] = true; }),
            "t.json: added_tokens[4].single_word: added tokens that match whole words are not supported");
  EXPECT_EQ(error_after([](json& file) {
              file["normalizer"]["normalizers"][0]["pattern"] = {{"Regex", "a+"}};
            }),
            "t.json: normalizer.normalizers[0].pattern.Regex: patterns that are regular expressions are not supported");
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
            "t.json: added_tokens[5].id: is 60, but '<mark>' is the next behind the model's vocabulary and must be 50");
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
                  "io: cannot read the tokenizer: No such file or directory (shard /nowhere/tokenizer.json)"));
  EXPECT_THAT([] { (void)Tokenizer::from_json("{\"version\": ", "cut.json"); },
              ::testing::ThrowsMessage<ErrorException>("parse: cut.json: not JSON (byte 13)"));
  EXPECT_THAT([] { (void)Tokenizer::load("/"); },
              ::testing::ThrowsMessage<ErrorException>("io: cannot read the tokenizer: Is a directory (shard /)"));
  EXPECT_THAT([] { (void)Tokenizer::load("/dev/null"); },
              ::testing::ThrowsMessage<ErrorException>("parse: /dev/null: not JSON (byte 1)"));
  EXPECT_THAT([] { (void)Tokenizer::from_json("[]", "list.json"); },
              ::testing::ThrowsMessage<ErrorException>("parse: list.json: expected an object, found array"));
}

TEST(Tokenizer, SurvivesFilesWithDamage) {
  const std::string intact = read_file(kAddedTokens);
  fuzz_tokenizer(intact);
  // A plain linear congruence is random enough to choose places and bytes.
  uint64_t state = 7;
  const auto random = [&](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  };
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = intact;
    for (uint64_t i = 0, changes = 1 + random(3); i < changes; ++i) {
      const size_t at = random(damaged.size());
      switch (random(3)) {
        case 0: damaged[at] = static_cast<char>(random(256)); break;
        case 1: damaged.erase(at, 1 + random(20)); break;
        default: damaged.insert(at, damaged.substr(random(damaged.size()), 1 + random(20))); break;
      }
    }
    fuzz_tokenizer(damaged);
  }
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

TEST(Tokenizer, SavesTheFileThatItWasLoadedFrom) {
  const fs::path path = fs::temp_directory_path() / ("millrace_tokenizer_" + std::to_string(::getpid()) + ".json");
  Tokenizer::load(kAddedTokens).save(path.string());
  EXPECT_EQ(read_file(path.string()), read_file(kAddedTokens));
  fs::remove(path);
  EXPECT_THROW(Tokenizer::load(kMlm).save("/nowhere/tokenizer.json"), ErrorException);
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
}  // namespace millrace
