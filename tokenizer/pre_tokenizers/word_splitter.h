#pragma once

#include <cstdint>
#include <string_view>

#include "millrace/tokenizer/aligned_text.h"
#include "millrace/tokenizer/json_node.h"

namespace millrace {

/// What becomes of the delimiters that a word is cut at. `the-final--countdown` at each `-`:
enum class SplitBehavior {
  kRemoved,             ///< `the`, `final`, `countdown`
  kIsolated,            ///< `the`, `-`, `final`, `-`, `-`, `countdown`
  kMergedWithPrevious,  ///< `the-`, `final-`, `-`, `countdown`
  kMergedWithNext,      ///< `the`, `-final`, `-`, `-countdown`
  kContiguous,          ///< `the`, `-`, `final`, `--`, `countdown`
};

/// Reads `Removed`, `Isolated`, `MergedWithPrevious`, `MergedWithNext` or `Contiguous`.
SplitBehavior read_split_behavior(const JsonNode& node);
std::string_view name_of(SplitBehavior behavior);

/// Cuts the words of a text into smaller ones, from left to right. Whoever uses it says where the delimiters are.
class WordSplitter {
 public:
  /// `spare` is work space with any contents. Both must outlive this.
  WordSplitter(SplitBehavior behavior, WordedText& text, WordedText& spare);

  /// The next piece of the text, up to byte `end`, is a delimiter, or is what stands between two. It may be empty.
  void take(size_t end, bool is_delimiter);
  /// A word ends here: what follows does not join what was before.
  void end_word();
  /// Gives the text its new words. Nothing may follow.
  void finish();

 private:
  bool joins(bool is_delimiter) const;

  SplitBehavior behavior_;
  WordedText& text_;
  WordedText& spare_;
  size_t taken_ = 0;
  // The word that is not yet complete, unless it is dropped.
  bool has_word_ = false;
  size_t word_begin_ = 0;
  bool last_is_delimiter_ = false;
};

/// Cuts each word at the characters that are delimiters.
void split_at_characters(bool (*is_delimiter)(char32_t), SplitBehavior behavior, WordedText& text, WordedText& spare);

}  // namespace millrace
