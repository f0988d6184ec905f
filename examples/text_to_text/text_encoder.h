#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "millrace/pipeline/dataset.h"
#include "millrace/tokenizer/tokenizer.h"

namespace millrace {

/// Throws `kInvalidArgument`.
[[noreturn]] void refuse(const std::string& message);

/// A class, and the word that the model says for it.
struct TextClass {
  std::string name = {};
  std::string word = {};
};

/// What a model is asked and may answer: in `statistics.json` and, of a model, in `text_to_text.json`.
struct TextTask {
  std::string prefix = "quality: ";     ///< in front of the title
  int64_t max_length = 128;             ///< tokens of an input
  int64_t head = 63;                    ///< tokens of a longer one before `<extra_id_1>`; the others stand after it
  bool html = false;                    ///< whether bodies are HTML
  std::vector<TextClass> classes = {};  ///< their numbers are their places

  /// The number of a class by its name.
  std::optional<int64_t> number_of(std::string_view name) const;
  std::vector<std::string> names() const;
  /// Throws `kInvalidArgument` for fewer than two classes, one that is there twice or has no word, and lengths
  /// that cannot work.
  void check() const;
};
void to_json(nlohmann::ordered_json& json, const TextTask& task);
void from_json(const nlohmann::json& json, TextTask& task);

/// Of a model's folder. Reading throws `kIo`, `kParse` for another document, and as `check`.
[[nodiscard]] TextTask load_text_task(const std::string& directory);
void save_text_task(const std::string& directory, const TextTask& task);

/// Texts and classes as a T5 reads and says them. An input is
///
///     prefix title </s> body </s>
///
/// as the tokenizer cuts that text; of more than `max_length` tokens the first `head`, `<extra_id_1>` and the last
/// `max_length - head - 1`. A class is its word and `</s>`. Any thread.
class TextEncoder {
 public:
  /// `path`: the tokenizer's, for errors. Throws `kInvalidArgument` when the tokenizer lacks `<pad>`, `</s>` or
  /// `<extra_id_1>`, and for a word that it does not make one token of, or a special one.
  TextEncoder(TextTask task, const Tokenizer& tokenizer, const std::string& path);

  /// The ids of an input, cut and padded to `max_length`. Gives how many tokens the text has.
  int64_t encode(std::string_view title, std::string_view body, std::vector<int32_t>& ids) const;
  /// Adds what the model reads of `title` and `body`, int32 `input_ids` and int64 `attention_mask` `[max_length]`, and
  /// int64 `length`, the tokens of the text.
  [[nodiscard]] Dataset encoded(const Dataset& rows) const;
  /// What the model is to say: `[2]`.
  std::span<const int32_t> labels_of(int64_t number) const;
  /// What tokens say, with the special ones but for padding.
  [[nodiscard]] std::string text_of(std::span<const int32_t> ids) const;
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
