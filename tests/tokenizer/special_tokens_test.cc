#include "millrace/tokenizer/special_tokens.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "tests/support/temporary_folder.h"

namespace millrace::special_tokens_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class FoundSpecialTokens : public testing::Test {
 protected:
  // A tokenizer of these words, with `cls` and `sep` around a text, or none.
  Tokenizer words(const std::vector<std::string>& tokens, const std::string& cls, const std::string& sep) {
    json vocabulary = json::array();
    json added = json::array();
    for (size_t i = 0; i < tokens.size(); ++i) {
      vocabulary.push_back({tokens[i], -1.0 - static_cast<double>(i)});
      added.push_back({{"id", i},
                       {"content", tokens[i]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", true}});
    }
    json file = {{"version", "1.0"},
                 {"added_tokens", added},
                 {"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocabulary}}}};
    if (!cls.empty() || !sep.empty()) {
      json single = json::array();
      json special = json::object();
      const auto add = [&](const std::string& token) {
        single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
        special[token] = {
            {"id", token}, {"ids", {std::ranges::find(tokens, token) - tokens.begin()}}, {"tokens", {token}}};
      };
      if (!cls.empty()) add(cls);
      single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
      json pair = single;
      pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 0}}}});
      if (!sep.empty()) add(sep);
      file["post_processor"] = {
          {"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
    }
    return Tokenizer::from_json(file.dump());
  }
  void write(const char* name, const json& content) { test::write_file(folder_.path(name), content.dump()); }
  std::string path() const { return folder_.path("tokenizer.json"); }
  std::string message(const Tokenizer& tokenizer) const {
    try {
      (void)SpecialTokens::find(tokenizer, path());
    } catch (const ErrorException& error) {
      return error.what();
    }
    return "nothing thrown";
  }

  const test::TemporaryFolder folder_;
};

TEST_F(FoundSpecialTokens, ByTheFilesBesideTheTokenizer) {
  const Tokenizer tokenizer = words({"<u>", "begin", "end", "hole", "empty", "[MASK]"}, "", "");
  write("special_tokens_map.json", {{"cls_token", "end"}, {"pad_token", {{"content", "empty"}, {"lstrip", false}}}});
  write("tokenizer_config.json",
        {{"cls_token", "begin"}, {"mask_token", {{"content", "hole"}}}, {"sep_token", nullptr}});
  const SpecialTokens found = SpecialTokens::find(tokenizer, path());
  EXPECT_EQ(found.cls, "begin");
  EXPECT_EQ(found.mask, "hole") << "whatever else would be usual";
  EXPECT_EQ(found.pad, "empty");
  EXPECT_EQ(found.bos, "begin");
  EXPECT_EQ(found.sep, std::nullopt);
  EXPECT_EQ(found.unk, std::nullopt);
  EXPECT_THAT(found.ids(tokenizer), ElementsAre(1, 3, 4));
}

TEST_F(FoundSpecialTokens, ByWhatTheTokenizerPutsAroundATextAndByTheUsualNames) {
  const Tokenizer tokenizer =
      words({"<unk>", "<s>", "[CLS]", "start", "stop", "<mask>", "[PAD]", "</s>"}, "start", "stop");
  const SpecialTokens found = SpecialTokens::find(tokenizer, path());
  EXPECT_EQ(found.cls, "start");
  EXPECT_EQ(found.sep, "stop");
  EXPECT_EQ(found.eos, "stop");
  EXPECT_EQ(found.mask, "<mask>");
  EXPECT_EQ(found.pad, "[PAD]");
  EXPECT_EQ(found.unk, "<unk>");
  // One that is after a text alone is no beginning.
  const SpecialTokens ended = SpecialTokens::find(words({"<unk>", "stop", "<s>"}, "", "stop"), path());
  EXPECT_EQ(ended.sep, "stop");
  EXPECT_EQ(ended.cls, "<s>");
  // Nor is one that is in front of a text alone its end.
  const SpecialTokens begun = SpecialTokens::find(words({"<unk>", "go", "a"}, "go", ""), path());
  EXPECT_EQ(begun.cls, "go");
  EXPECT_EQ(begun.sep, std::nullopt);
  const SpecialTokens plain = SpecialTokens::find(words({"[UNK]", "[CLS]", "[SEP]", "</s>"}, "", ""), path());
  EXPECT_EQ(plain.cls, "[CLS]");
  EXPECT_EQ(plain.sep, "[SEP]");
}

TEST_F(FoundSpecialTokens, AreMissedWhereTheyAreNeeded) {
  const Tokenizer tokenizer = words({"<unk>", "<s>", "<mask>"}, "", "");
  write("tokenizer_config.json", {{"mask_token", "<hole>"}, {"unk_token", "<unk>"}, {"bos_token", "<begin>"}});
  const SpecialTokens found = SpecialTokens::find(tokenizer, path());
  EXPECT_EQ(found.mask, std::nullopt) << "what a file says is not replaced by what is usual";
  EXPECT_EQ(found.bos, std::nullopt);
  EXPECT_THAT(found.ids(tokenizer), ElementsAre(0, 1));
  EXPECT_EQ(found.id_of(tokenizer, "cls_token"), 1);
  const auto needed = [&](std::string_view role) -> std::string {
    try {
      return std::to_string(found.id_of(tokenizer, role));
    } catch (const ErrorException& error) {
      return error.what();
    }
  };
  EXPECT_THAT(needed("mask_token"), AllOf(HasSubstr("no mask_token"), HasSubstr("tokenizer_config.json"),
                                          HasSubstr(R"("<hole>", which the tokenizer does not have)")));
  EXPECT_THAT(needed("pad_token"), AllOf(HasSubstr("nothing says which token"), HasSubstr("pad_token")));
}

TEST_F(FoundSpecialTokens, RefuseAFileOfAnotherForm) {
  const Tokenizer tokenizer = words({"<unk>", "<s>"}, "", "");
  write("tokenizer_config.json", {{"mask_token", 3}});
  EXPECT_THAT(message(tokenizer), HasSubstr("mask_token is 3"));
  write("tokenizer_config.json", json::array());
  EXPECT_THAT(message(tokenizer), HasSubstr("not a JSON object"));
  test::write_file(folder_.path("tokenizer_config.json"), "{");
  EXPECT_THAT(message(tokenizer), HasSubstr("not JSON"));
}

}  // namespace
}  // namespace millrace::special_tokens_test
