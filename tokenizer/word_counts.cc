#include "tokenizer/word_counts.h"

#include <algorithm>

namespace millrace {
namespace {

using Counted = std::vector<std::pair<std::string_view, int64_t>>;

// Calls take(word, count) for the words that stand for all of them at threshold t.
template <typename Take>
void for_each_taken(const Counted& words, int64_t t, const Take& take) {
  int64_t rare_occurrences = 0;
  for (const auto& [word, count] : words) {
    if (count >= t) {
      take(word, count);
      continue;
    }
    const int64_t before = rare_occurrences;
    rare_occurrences += count;
    if (before / t != rare_occurrences / t) take(word, t);
  }
}

size_t num_taken(const Counted& words, int64_t t) {
  size_t count = 0;
  for_each_taken(words, t, [&](std::string_view, int64_t) { ++count; });
  return count;
}

}  // namespace

void WordCounts::add(std::string_view word, int64_t count) {
  total_ += count;
  const auto found = counts_.find(word);
  if (found != counts_.end()) {
    found->second += count;
  } else {
    counts_.emplace(word, count);
  }
}

std::vector<std::pair<std::string, int64_t>> WordCounts::sample(size_t max_words) const {
  Counted words(counts_.begin(), counts_.end());
  std::sort(words.begin(), words.end());
  // The number of words that are taken falls as t grows.
  int64_t fits = 1;
  if (num_taken(words, 1) > max_words) {
    int64_t too_many = 1;
    fits = 2;
    while (fits <= total_ && num_taken(words, fits) > max_words) {
      too_many = fits;
      fits *= 2;
    }
    while (fits - too_many > 1) {
      const int64_t middle = too_many + (fits - too_many) / 2;
      (num_taken(words, middle) > max_words ? too_many : fits) = middle;
    }
  }
  std::vector<std::pair<std::string, int64_t>> sampled;
  for_each_taken(words, fits, [&](std::string_view word, int64_t count) { sampled.emplace_back(word, count); });
  return sampled;
}

}  // namespace millrace
