#include "millrace/tokenizer/training/unigram_trainer.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/pipeline_state.h"

namespace millrace::unigram_trainer_test {
namespace {

using ::testing::ElementsAre;
using ::testing::ThrowsMessage;

// Sentences of a small language, each with a number of its own.
std::vector<std::string> sentences() {
  const std::vector<std::string> subjects = {"the miller", "the old wheel", "a race", "the stream", "a turning stone"};
  const std::vector<std::string> verbs = {"turns", "feeds", "carries", "slows", "is turning"};
  const std::vector<std::string> objects = {"the mill", "the water", "the grain", "a long race", "``the works''"};
  std::vector<std::string> all;
  for (const std::string& subject : subjects) {
    for (const std::string& verb : verbs) {
      for (const std::string& object : objects) {
        all.push_back(subject + " " + verb + " " + object + ", " + std::to_string(all.size()) + ".");
      }
    }
  }
  return all;
}

UnigramTrainer trained_on(const std::vector<std::string>& texts, const UnigramTrainerOptions& options) {
  UnigramTrainer trainer(options);
  for (const std::string& text : texts) trainer.add(text);
  return trainer;
}

// All pieces in order, one string.
std::string pieces_of(const Tokenizer& tokenizer) {
  std::string pieces;
  for (int32_t id = 0; id < tokenizer.size(); ++id) pieces += std::string(tokenizer.token_of(id)) + "\n";
  return pieces;
}

TEST(UnigramTrainer, GivesTheLayoutOfTheMaskedLanguageModelExample) {
  const Tokenizer tokenizer = trained_on(sentences(), {.vocab_size = 65}).train();
  EXPECT_EQ(tokenizer.size(), 65);
  for (int32_t id = 0; id < 5; ++id) EXPECT_EQ(tokenizer.token_of(id), UnigramTrainer::kSpecialTokens[id]);
  const TokenEncoding encoding = tokenizer.encode("the miller");
  EXPECT_EQ(encoding.ids.front(), 0);
  EXPECT_EQ(encoding.ids.back(), 1);
  EXPECT_THAT(tokenizer.encode_pair("", "").type_ids, ElementsAre(0, 0, 1));
  // Whole words were learnt, and the quotes of the text became one character.
  EXPECT_THAT(tokenizer.encode("the miller turns", false).tokens, ElementsAre("▁the", "▁miller", "▁turns"));
  EXPECT_EQ(tokenizer.id_of("`"), std::nullopt);
  EXPECT_TRUE(tokenizer.id_of("\"").has_value());
}

TEST(UnigramTrainer, GivesTheLayoutOfAT5) {
  const Tokenizer tokenizer = trained_on(sentences(), {.layout = UnigramLayout::kT5, .vocab_size = 165}).train();
  EXPECT_EQ(tokenizer.size(), 165);
  EXPECT_EQ(tokenizer.token_of(0), "<pad>");
  EXPECT_EQ(tokenizer.token_of(1), "</s>");
  EXPECT_EQ(tokenizer.token_of(2), "<unk>");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(tokenizer.id_of("<extra_id_" + std::to_string(i) + ">"), 164 - i);
  // White space is between words, whichever it is; NFKC is the normal form; a text ends with </s>.
  EXPECT_THAT(tokenizer.encode("the\n\tmiller  ｔurns").tokens, ElementsAre("▁the", "▁miller", "▁turns", "</s>"));
  EXPECT_THAT(tokenizer.encode("the</s>mill<extra_id_1>", false).tokens,
              ElementsAre("▁the", "</s>", "▁mill", "<extra_id_1>"));
  EXPECT_THAT(tokenizer.encode_pair("", "").ids, ElementsAre(1, 1));
}

TEST(UnigramTrainer, MakesWholeWordsTokensAtTheCostOfTheLeastLikelyPieces) {
  const UnigramTrainerOptions plain{.layout = UnigramLayout::kT5, .vocab_size = 165};
  UnigramTrainerOptions options = plain;
  options.whole_words = {"wheel", "low", "unheard"};
  const Tokenizer before = trained_on(sentences(), plain).train();
  const Tokenizer tokenizer = trained_on(sentences(), options).train();
  EXPECT_EQ(tokenizer.size(), 165);
  for (const std::string& word : options.whole_words) {
    EXPECT_EQ(tokenizer.encode(word, false).ids.size(), 1U) << word;
  }
  EXPECT_GT(before.encode("low", false).ids.size(), 1U);
  EXPECT_GT(before.encode("unheard", false).ids.size(), 1U);
  // The text's own words are cut as before.
  const std::string text = "the miller slows the old wheel";
  EXPECT_EQ(tokenizer.encode(text).tokens, before.encode(text).tokens);
}

TEST(UnigramTrainer, RefusesAWholeWordThatCannotBeOneToken) {
  const auto refusal = [](const std::string& word) -> std::string {
    try {
      const UnigramTrainer before_any_text({.layout = UnigramLayout::kT5, .whole_words = {"mill", word}});
    } catch (const ErrorException& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(refusal("low"), "none");
  const std::string begin = "invalid_argument: ";
  EXPECT_EQ(refusal(""), begin + "an empty word cannot be one token");
  EXPECT_EQ(refusal("caf\xe9"), begin + "a word that must be one token is not UTF-8");
  for (const std::string word : {"<pad>", "</s>", "<unk>", "<extra_id_1>", "<extra_id_99>", "</s>x", "x<unk>"}) {
    EXPECT_EQ(refusal(word), begin + "'" + word + "' cannot be one token: it has a special token in it, or is one");
  }
  // The last one is a ligature, which NFKC takes apart.
  for (const std::string word : {"two words", " low", "low ", "\ufb01ne"}) {
    EXPECT_EQ(refusal(word), begin + "'" + word + "' cannot be one token: the tokenizer changes or cuts it");
  }
}

TEST(UnigramTrainer, AMaskStandsForAWordWithTheSpaceBeforeIt) {
  const Tokenizer tokenizer = trained_on(sentences(), {.vocab_size = 65}).train();
  std::vector<int32_t> ids;
  tokenizer.encode_ids("the [MASK] the", false, ids);
  std::vector<int32_t> expected;
  tokenizer.encode_ids("the", false, expected);
  expected.push_back(4);
  tokenizer.encode_ids("the", false, expected);
  EXPECT_EQ(ids, expected);
}

TEST(UnigramTrainer, EncodesItsOwnTextWithoutUnknownsAndBack) {
  const Tokenizer tokenizer = trained_on(sentences(), {.vocab_size = 66}).train();
  for (const std::string& sentence : sentences()) {
    const TokenEncoding encoding = tokenizer.encode(sentence);
    EXPECT_THAT(encoding.ids, ::testing::Not(::testing::Contains(2)));
    if (sentence.find('`') != std::string::npos) continue;
    EXPECT_EQ(tokenizer.decode(encoding.ids), sentence);
  }
}

TEST(UnigramTrainer, GivesEveryCharacterAPiece) {
  // Among them those that sentencepiece keeps for itself.
  std::vector<std::string> texts = sentences();
  const std::vector<std::string> characters = {"\t",     "\n", "\r", std::string(1, '\0'), "▅",      "⁇",
                                               "\ufffd", "é",  "水", "\U0001f30a",         "\u00a0", "\u200b",
                                               "<",      "@"};
  for (const std::string& character : characters) texts.push_back("mill" + character + "race " + character);
  const Tokenizer tokenizer = trained_on(texts, {.vocab_size = 75}).train();
  for (const std::string& character : characters) {
    EXPECT_TRUE(tokenizer.id_of(character).has_value()) << testing::PrintToString(character);
  }
  for (const std::string& text : texts) {
    EXPECT_THAT(tokenizer.encode(text).ids, ::testing::Not(::testing::Contains(2)));
  }
}

TEST(UnigramTrainer, GivesARareCharacterOfALargeTextItsPiece) {
  UnigramTrainer trainer({.vocab_size = 60, .max_words = 40});
  // 10 million characters and more, and more words than may be learnt from.
  const std::vector<std::string> texts = sentences();
  for (int i = 0; i < 2500; ++i) {
    for (const std::string& text : texts) trainer.add(text);
  }
  for (const char* rare : {"~", "@", "|"}) trainer.add(rare);
  const Tokenizer tokenizer = trainer.train();
  for (const char* rare : {"~", "@", "|"}) EXPECT_TRUE(tokenizer.id_of(rare).has_value()) << rare;
}

TEST(UnigramTrainer, LeavesTheRarestCharactersOutBelowFullCoverage) {
  std::vector<std::string> texts = sentences();
  texts.push_back("mill水race");
  const Tokenizer tokenizer = trained_on(texts, {.vocab_size = 65, .character_coverage = 0.999}).train();
  EXPECT_EQ(tokenizer.id_of("水"), std::nullopt);
  EXPECT_THAT(tokenizer.encode("mill水race", false).ids, ::testing::Contains(2));
}

TEST(UnigramTrainer, GivesTheSameForAnyNumberOfThreadsAndAnyOrderOfTexts) {
  std::vector<std::string> texts = sentences();
  const std::string expected = pieces_of(trained_on(texts, {.vocab_size = 65, .threads = 1}).train());
  std::reverse(texts.begin(), texts.end());
  for (const int threads : {2, 3, 0}) {
    EXPECT_EQ(pieces_of(trained_on(texts, {.vocab_size = 65, .threads = threads}).train()), expected) << threads;
  }
}

TEST(UnigramTrainer, LeavesTheCallersCoresAsTheyWere) {
  cpu_set_t before;
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  (void)trained_on(sentences(), {.vocab_size = 65, .threads = 1}).train();
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(UnigramTrainer, LearnsFromAsManyWordsAsAllowedAndTheSeedChoosesThem) {
  const auto train = [](uint64_t seed) {
    return pieces_of(trained_on(sentences(), {.vocab_size = 55, .max_words = 40, .seed = seed}).train());
  };
  EXPECT_EQ(train(1), train(1));
  EXPECT_NE(train(1), train(2));
}

TEST(UnigramTrainer, SaysWhichVocabularyFitsATextThatIsTooShort) {
  for (const std::vector<std::string>& texts :
       {std::vector<std::string>{"a mill race", "a mill wheel", "the mill"}, sentences()}) {
    const UnigramTrainer trainer = trained_on(texts, {.vocab_size = 5000});
    int found = 0;
    int fits = 0;
    try {
      (void)trainer.train();
    } catch (const ErrorException& error) {
      EXPECT_EQ(sscanf(error.what(),
                       "invalid_argument: a vocabulary of 5000 is too large for this text: on the way to it %d tokens "
                       "were found; try one of %d",
                       &found, &fits),
                2)
          << error.what();
    }
    ASSERT_GT(fits, 5);
    EXPECT_EQ(found, fits);
    EXPECT_EQ(trained_on(texts, {.vocab_size = fits}).train().size(), fits);
  }
}

TEST(UnigramTrainer, SaysTheSmallestVocabularyThatATextNeeds) {
  const std::vector<std::string> texts = {"mill", "race", "mill race"};
  EXPECT_THAT([&] { (void)trained_on(texts, {.vocab_size = 12}).train(); },
              ThrowsMessage<ErrorException>("invalid_argument: a vocabulary of 12 is too small for this text: its 8 "
                                            "characters and 5 special tokens need 13"));
  EXPECT_EQ(trained_on(texts, {.vocab_size = 13}).train().size(), 13);
}

TEST(UnigramTrainer, RefusesNoTextAndTextThatIsNotUtf8) {
  EXPECT_THAT(
      [] {
        (void)trained_on({"", ""}, {}).train();
      },
      ThrowsMessage<ErrorException>("invalid_argument: there is no text to learn a vocabulary from"));
  UnigramTrainer trainer;
  EXPECT_THAT([&] { trainer.add("mill\xff"); },
              ThrowsMessage<ErrorException>("parse: the text is not UTF-8 (offset 4)"));
}

TEST(UnigramTrainer, RefusesOptionsOutOfRange) {
  const auto message = [](UnigramTrainerOptions options) -> std::string {
    try {
      const UnigramTrainer trainer(options);
      return "";
    } catch (const ErrorException& error) {
      return error.error().message;
    }
  };
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message({.vocab_size = 5}), "vocab_size is 5, must be above the 5 special tokens");
  EXPECT_EQ(message({.character_coverage = 0}), "character_coverage is 0, must be above 0 and at most 1");
  EXPECT_EQ(message({.threads = -1}), "threads is -1, must be at least 0");
  EXPECT_EQ(message({.max_words = 0}), "max_words is 0, must be at least 1");
}

TEST(UnigramTrainer, DoesNotLearnFromSpecialTokensInTheText) {
  const UnigramTrainer trainer = trained_on({"[MASK][CLS]<unk>", "a[MASK]b [SEP] a"}, {.vocab_size = 8});
  // ▁a, ▁b, ▁, ▁a
  EXPECT_EQ(trainer.num_words(), 4);
  EXPECT_EQ(trainer.train().id_of("["), std::nullopt);
}

TEST(UnigramTrainer, CountsAllOfAVeryLongWord) {
  std::string word;
  for (int i = 0; i < 3000; ++i) word += i % 3 == 0 ? "ab" : "水";
  const Tokenizer tokenizer = trained_on({word}, {.vocab_size = 10}).train();
  EXPECT_THAT(tokenizer.encode(word).ids, ::testing::Not(::testing::Contains(2)));
}

// This program has the protobuf of pipelines, and sentencepiece one of its own: they must not meet.
TEST(UnigramTrainer, LearnsBesideAPipelineAndItsStates) {
  Pipeline pipeline = Dataset::range(0, 10).start({.threads = 1});
  EXPECT_TRUE(pipeline.next().has_value());
  const std::string state = pipeline.save().serialize();
  EXPECT_EQ(trained_on(sentences(), {.vocab_size = 65}).train().size(), 65);
  EXPECT_EQ(PipelineState::parse(state).serialize(), state);
}

// Names of a folder of /proc; none where the process has ended.
std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  std::error_code ended;
  for (std::filesystem::directory_iterator entry(folder, ended), end; !ended && entry != end; entry.increment(ended)) {
    names.insert(entry->path().filename());
  }
  return names;
}

// A process whose parent is `parent`; 0 where there is none.
pid_t child_of(pid_t parent) {
  for (const std::string& name : names_in("/proc")) {
    std::ifstream file("/proc/" + name + "/stat");
    std::string stat;
    std::getline(file, stat);
    // PID (PROGRAM) STATE PARENT: a program may be named anything.
    const size_t program_end = stat.rfind(") ");
    if (program_end != std::string::npos && std::atoi(stat.c_str() + program_end + 4) == parent) {
      return std::atoi(name.c_str());
    }
  }
  return 0;
}

TEST(UnigramTrainer, LearnsOnSeveralThreadsAndLeavesNoProcessAndNoFile) {
  const auto learned = [] { return trained_on(sentences(), {.vocab_size = 65}).train().to_json(); };
  const std::string alone = learned();
  const std::set<std::string> files = names_in("/proc/self/fd");
  std::vector<std::string> beside(3);
  {
    std::vector<std::jthread> threads;
    for (std::string& json : beside) threads.emplace_back([&] { json = learned(); });
  }
  EXPECT_THAT(beside, ::testing::Each(alone));
  EXPECT_EQ(names_in("/proc/self/fd"), files);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

TEST(UnigramTrainer, LearnsWithNothingElseOpenAndNotForAProcessThatWasKilled) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // whoever is left behind becomes a child of this process
  const int shared = ::dup(STDERR_FILENO);
  const pid_t caller = ::fork();
  ASSERT_GE(caller, 0);
  if (caller == 0) {
    std::vector<std::string> words;  // enough for some seconds
    for (int i = 0; i < 20'000; ++i) words.push_back(std::to_string(i * 7919LL * 104'729));
    (void)trained_on(words, {.vocab_size = 1000}).train();
    ::_exit(0);
  }
  pid_t learning = 0;
  bool only_standard_files = false;
  while (!only_standard_files && ::waitpid(caller, nullptr, WNOHANG) == 0) {
    if (learning == 0) learning = child_of(caller);
    if (learning != 0) {
      only_standard_files =
          names_in("/proc/" + std::to_string(learning) + "/fd") == std::set<std::string>{"0", "1", "2"};
    }
  }
  EXPECT_TRUE(only_standard_files);
  ::kill(caller, SIGKILL);
  int ending = 0;
  ::waitpid(caller, &ending, 0);
  ASSERT_EQ(::waitpid(learning, &ending, 0), learning);
  EXPECT_NE(ending, 0) << "it learned to its end";
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  ::close(shared);
}

TEST(UnigramTrainer, PrintsNothing) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_THROW((void)trained_on({"a mill"}, {.vocab_size = 5000}).train(), ErrorException);
  (void)trained_on(sentences(), {.vocab_size = 65}).train();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace millrace::unigram_trainer_test
