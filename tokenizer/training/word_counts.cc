#include "millrace/tokenizer/training/word_counts.h"

#include <algorithm>

#include <Random123/philox.h>

namespace millrace {
namespace {

using Counted = std::vector<std::pair<std::string_view, int64_t>>;

// 64 random bits: Philox4x32-10 (Salmon et al., SC 2011) of counter 0.
uint64_t random_bits(uint64_t seed) {
  const philox4x32_key_t key = {{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
  const philox4x32_ctr_t bits = philox4x32(philox4x32_ctr_t{}, key);
  return bits[0] | uint64_t{bits[1]} << 32;
}

// Calls take(word, count) for the words that stand for all of them at threshold t.
template <typename Take>
void for_each_taken(const Counted& words, int64_t t, uint64_t random, const Take& take) {
  int64_t rare_occurrences = static_cast<int64_t>(random % static_cast<uint64_t>(t));
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

size_t num_taken(const Counted& words, int64_t t, uint64_t random) {
  size_t count = 0;
  for_each_taken(words, t, random, [&](std::string_view, int64_t) { ++count; });
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

std::vector<std::pair<std::string, int64_t>> WordCounts::sample(size_t max_words, uint64_t seed) const {
  Counted words(counts_.begin(), counts_.end());
  std::sort(words.begin(), words.end());
  const uint64_t random = random_bits(seed);
  const auto fits = [&](int64_t t) { return t > total_ || num_taken(words, t, random) <= max_words; };
  int64_t smallest = 1;
  if (!fits(1)) {
    int64_t too_small = 1;
    for (smallest = 2; !fits(smallest); smallest *= 2) too_small = smallest;
    while (smallest - too_small > 1) {
      const int64_t middle = too_small + (smallest - too_small) / 2;
      (fits(middle) ? smallest : too_small) = middle;
    }
  }
  std::vector<std::pair<std::string, int64_t>> sampled;
  for_each_taken(words, smallest, random,
                 [&](std::string_view word, int64_t count) { sampled.emplace_back(word, count); });
  return sampled;
}

}  // namespace millrace
