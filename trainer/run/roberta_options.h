#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <boost/program_options.hpp>

#include "millrace/tokenizer/tokenizer.h"
#include "millrace/trainer/models/roberta_encoder.h"
#include "millrace/trainer/run/training_run.h"

namespace millrace {

/// The options of a program that trains a RoBERTa, or a model with its encoder: the folder of one to start from, or the
/// sizes of one from scratch. Defaults are of the members.
struct RobertaOptions {
  std::string model = {};        ///< in Hugging Face's layout. Default: empty, from scratch
  int64_t layers = 2;            ///< Default: 2
  int64_t hidden = 128;          ///< Default: 128
  int64_t heads = 0;             ///< Default: 0, hidden / 64, at least 1
  double dropout = 0.1;          ///< of states and attention. Default: 0.1
  double initializer_range = 0;  ///< standard deviation of start weights. Default: 0, 1 / sqrt(hidden)
};

void add_roberta_options(RobertaOptions& options, boost::program_options::options_description& model);
/// Takes what was given. Throws `kInvalidArgument` for sizes beside `--model`, and heads that do not fit.
void take_roberta_options(RobertaOptions& options, const boost::program_options::variables_map& given);

/// What a RoBERTa knows of its tokenizer.
struct RobertaTokens {
  std::string file = {};  ///< of the tokenizer; empty: nobody knows
  int64_t vocabulary_size = 0;
  int32_t cls = 0;
  int32_t sep = 0;
  int32_t pad = 0;
};
/// `path`: of the tokenizer's file. Throws as SpecialTokens.
RobertaTokens roberta_tokens(const Tokenizer& tokenizer, const std::string& path);

/// The encoder of these options for rows of up to `longest` tokens. Throws as `load_roberta_config`, and
/// `kInvalidArgument` for a `model` with fewer tokens or positions, another padding, or another tokenizer in its
/// folder.
RobertaConfig roberta_config(const RobertaOptions& options, const RobertaTokens& tokens, int64_t longest);

/// How a run writes a model with this encoder: as transformers loads the encoder, with its tokenizer, and the other
/// `files` by name beside it.
RunModel written_with_roberta(const Model& model, const RobertaConfig& config, const std::string& tokenizer_file,
                              int64_t longest, const std::map<std::string, std::string>& files);

}  // namespace millrace
