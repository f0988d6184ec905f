#include "examples/quest/sequences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "tests/examples/mlm/preparation_text.h"
#include "tests/support/temporary_folder.h"

namespace millrace::sequences_test {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::ThrowsMessage;

class SequencesOfLetters : public testing::Test {
 protected:
  SequencesOfLetters() { test::write_file(file(), test::letter_tokenizer_json()); }
  std::string file() const { return folder_.path("tokenizer.json"); }
  // Ids of the parts between `[CLS]` and `[SEP]`; of these letters by the tokenizer itself.
  std::vector<int32_t> joined(const std::vector<std::pair<std::string, size_t>>& parts) const {
    const Tokenizer tokenizer = Tokenizer::load(file());
    std::vector<int32_t> ids;
    for (const auto& [text, most] : parts) {
      std::vector<int32_t> part;
      tokenizer.encode_ids(text, false, part);
      part.resize(std::min(part.size(), most));
      ids.push_back(0);
      ids.insert(ids.end(), part.begin(), part.end());
      ids.push_back(1);
    }
    return ids;
  }
  const test::TemporaryFolder folder_;
};

// "question" is a space and 8 letters here, "answer" a space and 6.
constexpr size_t kQuestionWord = 9;
constexpr size_t kAnswerWord = 7;

TEST_F(SequencesOfLetters, HaveAWordInFrontThatSaysWhichOneItIs) {
  const SequenceEncoder encoder(file(), {.question = 60, .answer = 60, .title = 10});
  Sequences sequences = encoder.encode({.title = "abc", .body = "de fg", .answer = "hij"});
  EXPECT_THAT(sequences.question, ElementsAreArray(joined({{"question", 99}, {"abc", 99}, {"de fg", 99}})));
  EXPECT_THAT(sequences.answer, ElementsAreArray(joined({{"answer", 99}, {"hij", 99}})));
  EXPECT_FALSE(sequences.cut);
  EXPECT_EQ(encoder.tokens().pad, 3);
  EXPECT_EQ(encoder.tokens().vocabulary_size, 32);
}

TEST_F(SequencesOfLetters, KeepTheBeginningOfWhatIsTooLong) {
  const std::string text = "abcdefghijklmnopqrstuvwxyz";
  const SequenceEncoder encoder(file(), {.question = 30, .answer = 20, .title = 4});
  Sequences sequences = encoder.encode({.title = text, .body = text, .answer = text});
  const size_t body = 30 - 6 - kQuestionWord - 4;
  const size_t answer = 20 - 4 - kAnswerWord;
  EXPECT_THAT(sequences.question, ElementsAreArray(joined({{"question", 99}, {text, 4}, {text, body}})));
  EXPECT_THAT(sequences.answer, ElementsAreArray(joined({{"answer", 99}, {text, answer}})));
  EXPECT_EQ(sequences.question.size(), 30U);
  EXPECT_EQ(sequences.answer.size(), 20U);
  EXPECT_TRUE(sequences.cut);
  // A short title leaves its room empty: a body has one limit.
  sequences = encoder.encode({.title = "a", .body = text, .answer = "a"});
  EXPECT_EQ(sequences.question.size(), 30U - 2);
  EXPECT_TRUE(sequences.cut);
  sequences = encoder.encode({.title = "a", .body = "a", .answer = "a"});
  EXPECT_FALSE(sequences.cut);
}

TEST_F(SequencesOfLetters, LeaveWhatTheCompetitionLeftWithWordsOfOneToken) {
  // 416 and 480 with words of 9 and 7 tokens in place of 1.
  const SequenceEncoder encoder(file(), {.question = 416 + 8, .answer = 480 + 6, .title = kOriginalLimits.title});
  const std::string text(1000, 'a');
  Sequences sequences = encoder.encode({.title = text, .body = text, .answer = text});
  EXPECT_THAT(sequences.question, ElementsAreArray(joined({{"question", 99}, {text, 64}, {text, 345}})));
  EXPECT_THAT(sequences.answer, ElementsAreArray(joined({{"answer", 99}, {text, 475}})));
}

TEST_F(SequencesOfLetters, RefuseLimitsThatLeaveNothing) {
  const auto message = HasSubstr("leave none for a text; 1 more are needed");
  EXPECT_THAT([&] { SequenceEncoder(file(), {.question = 19, .answer = 60, .title = 4}); },
              ThrowsMessage<ErrorException>(message));
  EXPECT_THAT([&] { SequenceEncoder(file(), {.question = 60, .answer = 11, .title = 4}); },
              ThrowsMessage<ErrorException>(message));
  (void)SequenceEncoder(file(), {.question = 20, .answer = 12, .title = 4});
}

}  // namespace
}  // namespace millrace::sequences_test
