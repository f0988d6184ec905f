#include "examples/text_to_text/text_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "tests/examples/text_to_text/small_t5.h"
#include "tests/support/temporary_folder.h"

namespace millrace::text_encoder_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TextTask task(int64_t max_length = 16, int64_t head = 7) {
  return {.prefix = "q ", .max_length = max_length, .head = head, .classes = {{"CLOSE", "none"}, {"EDIT", "low"}}};
}

Tokenizer small() { return Tokenizer::from_json(test::small_t5_tokenizer_json()); }

TextEncoder encoder(const TextTask& of = task()) { return {of, small(), "tokenizer.json"}; }

std::vector<int32_t> ids_of(const TextEncoder& of, const std::string& title, const std::string& body, int64_t length) {
  std::vector<int32_t> ids;
  EXPECT_EQ(of.encode(title, body, ids), length);
  return ids;
}

TEST(TextEncoder, PutsPrefixTitleAndBodyTogetherAndPads) {
  // q ab</s>c low</s>
  EXPECT_THAT(ids_of(encoder(), "ab", "c\nlow", 10), ElementsAre(3, 20, 3, 4, 5, 1, 3, 6, 31, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(ids_of(encoder(task(4, 1)), "", "", 4), ElementsAre(3, 20, 1, 1));
}

TEST(TextEncoder, KeepsHeadAndTailOfALongerText) {
  const std::vector<int32_t> whole = ids_of(encoder(task(32, 15)), "abcdef", "ghijklm", 19);
  const std::vector<int32_t> cut = ids_of(encoder(), "abcdef", "ghijklm", 19);
  ASSERT_EQ(cut.size(), 16U);
  EXPECT_TRUE(std::equal(cut.begin(), cut.begin() + 7, whole.begin()));
  EXPECT_EQ(cut[7], 33);
  EXPECT_TRUE(std::equal(cut.begin() + 8, cut.end(), whole.begin() + 19 - 8));
  // One of exactly that length stays as it is.
  EXPECT_THAT(ids_of(encoder(), "abcd", "efghij", 16),
              ElementsAre(3, 20, 3, 4, 5, 6, 7, 1, 3, 8, 9, 10, 11, 12, 13, 1));
}

TEST(TextEncoder, TakesNoNoticeOfHowTheTokenizerCutsAndPads) {
  const Tokenizer cutting = small()
                                .with_truncation(TokenTruncation{.max_length = 3})
                                .with_padding(TokenPadding{.length = 40, .pad_id = 0, .pad_token = "<pad>"});
  const TextEncoder of(task(), cutting, "tokenizer.json");
  EXPECT_EQ(ids_of(of, "ab", "c\nlow", 10), ids_of(encoder(), "ab", "c\nlow", 10));
}

TEST(TextEncoder, SaysTheWordOfAClassAndEnds) {
  EXPECT_THAT(encoder().labels_of(0), ElementsAre(30, 1));
  EXPECT_THAT(encoder().labels_of(1), ElementsAre(31, 1));
  EXPECT_THAT(encoder().class_tokens(), ElementsAre(30, 31));
}

TEST(TextEncoder, RefusesAWordThatIsNotOneToken) {
  TextTask other = task();
  other.classes[1].word = "ab";
  EXPECT_THAT([&] { encoder(other); }, ThrowsMessage<ErrorException>(
                                           HasSubstr("'ab', the word of class 'EDIT', is 3 tokens in tokenizer.json")));
  other.classes[1].word = "\u00e9";
  EXPECT_THAT([&] { encoder(other); }, ThrowsMessage<ErrorException>(HasSubstr("is 2 tokens")));
  for (const char* const special : {"<pad>", "</s>", "<unk>", "<extra_id_1>", "<extra_id_0>"}) {
    other.classes[1].word = special;
    EXPECT_THAT([&] { encoder(other); },
                ThrowsMessage<ErrorException>(HasSubstr("the word of class 'EDIT', is a special token in")));
  }
  other.classes[1].word = " none";
  EXPECT_THAT([&] { encoder(other); }, ThrowsMessage<ErrorException>(HasSubstr("is the token of another class")));
}

TEST(TextEncoder, RefusesATokenizerOfAnotherModel) {
  auto json = nlohmann::json::parse(test::small_t5_tokenizer_json());
  for (auto& token : json["added_tokens"]) {
    if (token["content"] == "<extra_id_1>") token["content"] = "<mask>";
  }
  json["model"]["vocab"][33][0] = "<mask>";
  EXPECT_THAT([&] { TextEncoder(task(), Tokenizer::from_json(json.dump()), "x.json"); },
              ThrowsMessage<ErrorException>(HasSubstr("x.json has no token <extra_id_1>")));
}

TEST(TextTask, ComesBackFromItsFile) {
  const test::TemporaryFolder folder;
  TextTask written = task();
  written.html = true;
  save_text_task(folder.path(), written);
  const TextTask read = load_text_task(folder.path());
  EXPECT_EQ(nlohmann::ordered_json(read), nlohmann::ordered_json(written));
  EXPECT_TRUE(read.html);
  EXPECT_EQ(read.number_of("EDIT"), 1);
  EXPECT_EQ(read.number_of("low"), std::nullopt);
  test::write_file(folder.path("text_to_text.json"), R"({"prefix": "q"})");
  EXPECT_THAT([&] { (void)load_text_task(folder.path()); },
              ThrowsMessage<ErrorException>(HasSubstr("text_to_text.json")));
}

TEST(TextTask, RefusesWhatCannotWork) {
  const auto message = [](const std::function<void(TextTask&)>& change) -> std::string {
    TextTask changed = task();
    change(changed);
    try {
      changed.check();
    } catch (const ErrorException& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message([](TextTask&) {}), "");
  EXPECT_THAT(message([](TextTask& t) { t.classes.pop_back(); }), HasSubstr("there are 1 classes"));
  EXPECT_THAT(message([](TextTask& t) { t.classes[0].name = "EDIT"; }), HasSubstr("class 'EDIT' is there twice"));
  EXPECT_THAT(message([](TextTask& t) { t.classes[0].word = "low"; }), HasSubstr("two classes have the word 'low'"));
  EXPECT_THAT(message([](TextTask& t) { t.classes[0].name = ""; }), HasSubstr("a class has no name"));
  EXPECT_THAT(message([](TextTask& t) { t.classes[1].word = ""; }), HasSubstr("class 'EDIT' has an empty word"));
  EXPECT_THAT(message([](TextTask& t) { t.head = 15; }), HasSubstr("head is 15, must be 1 to 14"));
  EXPECT_THAT(message([](TextTask& t) { t.max_length = 3; }), HasSubstr("max_length is 3"));
}

}  // namespace
}  // namespace millrace::text_encoder_test
