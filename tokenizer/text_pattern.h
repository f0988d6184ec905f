#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "millrace/tokenizer/json_node.h"

namespace millrace {

/// A string or a regular expression that is looked for in texts. Expressions have the syntax and the meaning that
/// Oniguruma gives them with its Ruby syntax, as in the Python package. Immutable; any thread.
class TextPattern {
 public:
  struct Match {
    size_t begin = 0;
    size_t end = 0;
  };

  /// Reads `{"String": …}` or `{"Regex": …}`. Throws `kParse` for an expression that has an error.
  explicit TextPattern(const JsonNode& node);
  ~TextPattern();
  TextPattern(TextPattern&&) noexcept;
  TextPattern& operator=(TextPattern&&) noexcept;

  nlohmann::ordered_json to_json() const;

  /// Goes over the matches in one text, from left to right. One that is empty is never right after another one.
  class Cursor {
   public:
    Cursor(const TextPattern& pattern, std::string_view text) : pattern_(pattern), text_(text) {}
    /// Throws `kInvalidArgument` when the search for an expression takes too many steps.
    std::optional<Match> next();

   private:
    const TextPattern& pattern_;
    std::string_view text_;
    size_t search_from_ = 0;
    std::optional<size_t> last_end_;
  };

 private:
  struct Expression;

  std::optional<Match> search(std::string_view text, size_t from) const;

  std::string source_;
  std::unique_ptr<const Expression> expression_;  // null: a plain string
};

}  // namespace millrace
