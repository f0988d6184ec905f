#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "examples/quest/quest_rows.h"
#include "millrace/tokenizer/tokenizer.h"
#include "millrace/trainer/run/roberta_options.h"

namespace millrace {

/// The most tokens of a row.
struct SequenceLimits {
  int64_t question = 96;  ///< of the question's sequence. Default: 96
  int64_t answer = 96;    ///< of the answer's. Default: 96
  int64_t title = 24;     ///< of the title in the former; what is left of that is the body's. Default: 24
  friend bool operator==(const SequenceLimits&, const SequenceLimits&) = default;
};

/// Those of the competition: they leave 345 for the body and 475 for the answer.
inline constexpr SequenceLimits kOriginalLimits = {.question = 416, .answer = 480, .title = 64};

/// A row as ids, without padding.
struct Sequences {
  std::vector<int32_t> question = {};
  std::vector<int32_t> answer = {};
  bool cut = false;  ///< whether a text was longer than its limit
};

/// Makes `<s> question </s><s> TITLE </s><s> BODY </s>` and `<s> answer </s><s> ANSWER </s>` of a row, in the
/// tokenizer's own tokens. Of a text that is too long the beginning stays. Immutable, any thread.
class SequenceEncoder {
 public:
  /// Throws as Tokenizer and SpecialTokens do, and `kInvalidArgument` where no token would be left for a text.
  SequenceEncoder(const std::string& tokenizer_file, const SequenceLimits& limits);

  /// Throws as `Tokenizer::encode`, and `kInvalidArgument` for a text without tokens, naming the row.
  Sequences encode(const QuestRow& row) const;
  std::string decode(std::span<const int32_t> ids) const { return tokenizer_.decode(ids, false); }
  const SequenceLimits& limits() const { return limits_; }
  const RobertaTokens& tokens() const { return tokens_; }

 private:
  std::vector<int32_t> beginning(const char* word) const;
  // Whether the text was cut.
  bool append(const std::string& text, int64_t most, std::vector<int32_t>& ids) const;

  const Tokenizer tokenizer_;
  const SequenceLimits limits_;
  const RobertaTokens tokens_;
  const std::vector<int32_t> question_begin_;
  const std::vector<int32_t> answer_begin_;
  const int64_t most_of_body_;
  const int64_t most_of_answer_;
};

}  // namespace millrace
