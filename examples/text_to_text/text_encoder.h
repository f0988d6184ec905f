#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "examples/text_to_text/text_task.h"
#include "millrace/tokenizer/tokenizer.h"

namespace millrace {

/// Texts and classes as a T5 reads and says them. An input is
///
///     prefix title </s> body </s>
///
/// as the tokenizer cuts that text; of more than `max_length` tokens the first `head`, `<extra_id_1>` and the last
/// `max_length - head - 1`. A class is its word and `</s>`. Any thread.
class TextEncoder {
 public:
  /// `path`: the tokenizer's, for errors. Throws `kInvalidArgument` when the tokenizer lacks `<pad>`, `</s>` or
  /// `<extra_id_1>`, and for a word that it does not make one token of.
  TextEncoder(TextTask task, const Tokenizer& tokenizer, const std::string& path);

  /// The ids of an input, cut and padded to `max_length`. Gives how many tokens the text has.
  int64_t encode(std::string_view title, std::string_view body, std::vector<int32_t>& ids) const;
  /// What the model is to say: `[2]`.
  std::span<const int32_t> labels_of(int64_t number) const;
  /// The token of each class.
  const std::vector<int32_t>& class_tokens() const { return class_tokens_; }

  const TextTask& task() const { return task_; }
  int32_t pad_token() const { return pad_; }
  int32_t end_token() const { return end_; }

 private:
  TextTask task_;
  Tokenizer tokenizer_;
  int32_t pad_ = 0;
  int32_t end_ = 0;
  int32_t left_out_ = 0;
  std::vector<int32_t> class_tokens_;
  std::vector<int32_t> labels_;  // [classes, 2]
};

}  // namespace millrace
