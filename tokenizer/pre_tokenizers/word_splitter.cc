#include "millrace/tokenizer/pre_tokenizers/word_splitter.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/utf8.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {
namespace {

constexpr std::array<std::string_view, 5> kSplitBehaviors = {"Removed", "Isolated", "MergedWithPrevious",
                                                             "MergedWithNext", "Contiguous"};

}  // namespace

SplitBehavior read_split_behavior(const JsonNode& node) {
  const std::string name = node.string();
  for (size_t i = 0; i < kSplitBehaviors.size(); ++i) {
    if (name == kSplitBehaviors[i]) return static_cast<SplitBehavior>(i);
  }
  node.fail(fmt::format("expected {}, found '{}'", fmt::join(kSplitBehaviors, ", "), excerpt(name)));
}

std::string_view name_of(SplitBehavior behavior) { return kSplitBehaviors[static_cast<size_t>(behavior)]; }

WordSplitter::WordSplitter(SplitBehavior behavior, WordedText& text, WordedText& spare)
    : behavior_(behavior), text_(text), spare_(spare) {
  spare_.text.clear(text.text.tracking());
  spare_.word_ends.clear();
}

bool WordSplitter::joins(bool is_delimiter) const {
  if (!has_word_) return false;
  switch (behavior_) {
    case SplitBehavior::kMergedWithPrevious: return is_delimiter && !last_is_delimiter_;
    case SplitBehavior::kMergedWithNext: return !is_delimiter && last_is_delimiter_;
    case SplitBehavior::kContiguous: return is_delimiter == last_is_delimiter_;
    default: return false;
  }
}

void WordSplitter::take(size_t end, bool is_delimiter) {
  if (!joins(is_delimiter)) {
    end_word();
    word_begin_ = taken_;
    has_word_ = !(is_delimiter && behavior_ == SplitBehavior::kRemoved);
  }
  last_is_delimiter_ = is_delimiter;
  taken_ = end;
}

void WordSplitter::end_word() {
  if (has_word_ && word_begin_ < taken_) {
    // Where nothing is dropped the text stays as it is.
    if (behavior_ == SplitBehavior::kRemoved) spare_.text.append(text_.text, word_begin_, taken_);
    const size_t end = behavior_ == SplitBehavior::kRemoved ? spare_.text.text().size() : taken_;
    spare_.word_ends.push_back(static_cast<uint32_t>(end));
  }
  has_word_ = false;
}

void WordSplitter::finish() {
  end_word();
  if (behavior_ == SplitBehavior::kRemoved) std::swap(text_.text, spare_.text);
  std::swap(text_.word_ends, spare_.word_ends);
}

void split_at_characters(bool (*is_delimiter)(char32_t), SplitBehavior behavior, WordedText& text, WordedText& spare) {
  const std::string_view before = text.text.text();
  WordSplitter splitter(behavior, text, spare);
  size_t begin = 0;
  for (const uint32_t end : text.word_ends) {
    for (size_t at = begin; at < end;) {
      const Utf8Character character = character_at(before, at);
      if (is_delimiter(character.value)) {
        if (begin < at) splitter.take(at, /*is_delimiter=*/false);
        begin = at + character.size;
        splitter.take(begin, /*is_delimiter=*/true);
      }
      at += character.size;
    }
    if (begin < end) splitter.take(end, /*is_delimiter=*/false);
    splitter.end_word();
    begin = end;
  }
  splitter.finish();
}

}  // namespace millrace
