#include "examples/quest/sequences.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/command_line/given_options.h"
#include "millrace/formats/error.h"
#include "millrace/formats/utf8.h"

namespace millrace {

SequenceEncoder::SequenceEncoder(const std::string& tokenizer_file, const SequenceLimits& limits)
    : tokenizer_(Tokenizer::load(tokenizer_file).with_truncation(std::nullopt).with_padding(std::nullopt)),
      limits_(limits),
      tokens_(roberta_tokens(tokenizer_, tokenizer_file)),
      question_begin_(beginning("question")),
      answer_begin_(beginning("answer")),
      most_of_body_(limits.question - std::ssize(question_begin_) - limits.title - 4),
      most_of_answer_(limits.answer - std::ssize(answer_begin_) - 2) {
  const int64_t room = std::min(most_of_body_, most_of_answer_);
  require(room >= 1, fmt::format("{} tokens of a question, {} of them its title's, and {} of an answer leave none "
                                 "for a text; {} more are needed",
                                 limits.question, limits.title, limits.answer, 1 - room));
}

std::vector<int32_t> SequenceEncoder::beginning(const char* word) const {
  std::vector<int32_t> ids = {tokens_.cls};
  tokenizer_.encode_ids(word, false, ids);
  ids.push_back(tokens_.sep);
  return ids;
}

bool SequenceEncoder::append(const std::string& text, int64_t most, std::vector<int32_t>& ids) const {
  ids.push_back(tokens_.cls);
  const auto begin = std::ssize(ids);
  tokenizer_.encode_ids(text, false, ids);
  const int64_t length = std::ssize(ids) - begin;
  if (length == 0) require(false, fmt::format("'{}' has no tokens", printable(excerpt(text))));
  if (length > most) ids.resize(static_cast<size_t>(begin + most));
  ids.push_back(tokens_.sep);
  return length > most;
}

Sequences SequenceEncoder::encode(const QuestRow& row) const {
  Sequences sequences{.question = question_begin_, .answer = answer_begin_};
  try {
    const bool cut_title = append(row.title, limits_.title, sequences.question);
    const bool cut_body = append(row.body, most_of_body_, sequences.question);
    const bool cut_answer = append(row.answer, most_of_answer_, sequences.answer);
    sequences.cut = cut_title || cut_body || cut_answer;
    return sequences;
  } catch (const ErrorException& e) {
    throw ErrorException(e.error().code, fmt::format("row '{}': {}", row.id, e.error().message));
  }
}

}  // namespace millrace
