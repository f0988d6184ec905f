#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace millrace {

/// How often each word of a text occurs. One thread at a time.
class WordCounts {
 public:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view word) const { return std::hash<std::string_view>()(word); }
  };
  using Map = std::unordered_map<std::string, int64_t, Hash, std::equal_to<>>;

  void add(std::string_view word, int64_t count = 1);

  /// The distinct words and how often each occurs, in no order.
  const Map& words() const { return counts_; }
  int64_t total() const { return total_; }

  /// At most `max_words` words that stand for all of them, each with the number of occurrences that it stands for,
  /// in order of the words' bytes. Words that occur at least t times are all there, with their own counts. Of the rarer
  /// ones, in order of their bytes, every t-th occurrence is taken, from one on that `seed` chooses, and its word
  /// stands for t of them (systematic sampling with probability proportional to size), so sums over words are kept on
  /// average. t is the smallest that fits: 1, so all words and no choice, where there are few enough.
  std::vector<std::pair<std::string, int64_t>> sample(size_t max_words, uint64_t seed) const;

 private:
  Map counts_;
  int64_t total_ = 0;
};

}  // namespace millrace
