#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "millrace/tokenizer/models/model.h"

namespace millrace {

/// The tokens of the words that a thread met last. Each thread has one cache of 512 KiB for all of its models, made
/// when it is first used, so that a look costs no lock and no allocation; a word takes the place of another one with
/// the same hash. Long words, and those with many tokens or with gaps between them, are not kept.
class WordCache {
 public:
  /// The number of a model, unique in the process.
  static uint64_t new_owner();
  /// The calling thread's.
  static WordCache& of_this_thread();

  /// Appends the tokens of `word` if they are here.
  bool find(uint64_t owner, std::string_view word, std::vector<ModelToken>& tokens) const;
  /// Keeps the tokens from `first` on for `word`.
  void store(uint64_t owner, std::string_view word, const std::vector<ModelToken>& tokens, size_t first);

 private:
  static constexpr size_t kMaxTokens = 6;
  static constexpr size_t kNumEntries = 8192;  // a power of two

  // The size and the bytes of a word, zeros after them.
  struct Key {
    std::array<uint64_t, 3> parts{};
    bool operator==(const Key&) const = default;
    size_t hash(uint64_t owner) const;
  };
  static constexpr size_t kMaxWordBytes = sizeof(Key) - 1;

  struct alignas(64) Entry {
    Key key;
    uint64_t owner = 0;  // 0: the entry is empty
    std::array<int32_t, kMaxTokens> ids{};
    std::array<uint8_t, kMaxTokens> ends{};  // a token begins where the one before ends
    uint8_t num_tokens = 0;
  };

  static Key key_of(std::string_view word);

  std::vector<Entry> entries_{kNumEntries};
};

}  // namespace millrace
