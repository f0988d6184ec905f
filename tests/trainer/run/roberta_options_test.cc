#include "millrace/trainer/run/roberta_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/command_line/command_line.h"
#include "millrace/formats/error.h"
#include "millrace/formats/safetensors/reader.h"
#include "millrace/trainer/models/roberta.h"
#include "millrace/trainer/models/roberta_pretrained.h"
#include "tests/support/temporary_folder.h"

namespace millrace::roberta_options_test {
namespace {

namespace po = boost::program_options;
using testing::HasSubstr;
using testing::ThrowsMessage;

const RobertaTokens kTokens = {.vocabulary_size = 32, .cls = 0, .sep = 1, .pad = 3};

RobertaOptions parsed(std::vector<const char*> arguments) {
  RobertaOptions options;
  po::options_description described("model");
  add_roberta_options(options, described);
  arguments.insert(arguments.begin(), "program");
  const auto given =
      parse_command_line(static_cast<int>(arguments.size()), arguments.data(), {.name = "program"}, described);
  take_roberta_options(options, *given);
  return options;
}

TEST(RobertaOptions, MakeAnEncoderFromScratchForTokenizerAndRows) {
  const RobertaConfig config =
      roberta_config(parsed({"--hidden", "256", "--layers", "3", "--dropout", "0.2"}), kTokens, 40);
  EXPECT_EQ(config.vocab_size, 32);
  EXPECT_EQ(config.num_hidden_layers, 3);
  EXPECT_EQ(config.num_attention_heads, 4);
  EXPECT_EQ(config.intermediate_size, 1024);
  EXPECT_EQ(config.max_position_embeddings, 44);
  EXPECT_EQ(config.pad_token_id, 3);
  EXPECT_EQ(config.bos_token_id, 0);
  EXPECT_EQ(config.eos_token_id, 1);
  EXPECT_DOUBLE_EQ(config.hidden_dropout_prob, 0.2);
  EXPECT_DOUBLE_EQ(config.initializer_range, 1.0 / 16);
  EXPECT_DOUBLE_EQ(roberta_config(parsed({"--initializer-range", "0.02"}), kTokens, 40).initializer_range, 0.02);
  EXPECT_THAT(
      [] {
        (void)parsed({"--hidden", "10", "--heads", "4"});
      },
      ThrowsMessage<ErrorException>(HasSubstr("--hidden is 10, must be a multiple of --heads, which is 4")));
}

TEST(RobertaOptions, TakeTheSizesOfAModelThatFits) {
  const test::TemporaryFolder folder;
  const RobertaConfig there = {.vocab_size = 40,
                               .hidden_size = 12,
                               .num_hidden_layers = 1,
                               .num_attention_heads = 2,
                               .intermediate_size = 20,
                               .max_position_embeddings = 24,
                               .pad_token_id = 3};
  save_roberta_config(folder.path(), there);
  const std::string path = folder.path();
  const RobertaOptions options = parsed({"--model", path.c_str()});
  EXPECT_EQ(roberta_config(options, kTokens, 20).hidden_size, 12);
  EXPECT_THAT([&] { (void)roberta_config(options, kTokens, 21); },
              ThrowsMessage<ErrorException>(HasSubstr("is a model for 20 tokens, rows have 21")));
  EXPECT_THAT([&] { (void)roberta_config(options, {.vocabulary_size = 41, .pad = 3}, 20); },
              ThrowsMessage<ErrorException>(HasSubstr("is a model of 40 tokens, the tokenizer has 41")));
  EXPECT_THAT([&] { (void)roberta_config(options, {.vocabulary_size = 40, .pad = 1}, 20); },
              ThrowsMessage<ErrorException>(HasSubstr("is a model whose padding is 3, the tokenizer's is 1")));
  EXPECT_THAT(
      [&] {
        (void)parsed({"--model", path.c_str(), "--layers", "2"});
      },
      ThrowsMessage<ErrorException>(HasSubstr("--layers is what --model has")));
}

}  // namespace
}  // namespace millrace::roberta_options_test
