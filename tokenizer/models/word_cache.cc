#include "millrace/tokenizer/models/word_cache.h"

#include <atomic>
#include <cstring>

namespace millrace {

uint64_t WordCache::new_owner() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

WordCache& WordCache::of_this_thread() {
  static thread_local WordCache cache;
  return cache;
}

size_t WordCache::Key::hash(uint64_t owner) const {
  // Multipliers of xxHash: odd, with bits everywhere.
  uint64_t mixed = (parts[0] ^ owner) * 0x9e3779b185ebca87U;
  mixed = (mixed ^ mixed >> 29 ^ parts[1]) * 0xc2b2ae3d27d4eb4fU;
  mixed = (mixed ^ mixed >> 31 ^ parts[2]) * 0x165667b19e3779f9U;
  return mixed >> 40;
}

WordCache::Key WordCache::key_of(std::string_view word) {
  std::array<char, sizeof(Key)> bytes{};
  bytes[0] = static_cast<char>(word.size());
  std::memcpy(bytes.data() + 1, word.data(), word.size());
  Key key;
  std::memcpy(key.parts.data(), bytes.data(), sizeof(Key));
  return key;
}

bool WordCache::find(uint64_t owner, std::string_view word, std::vector<ModelToken>& tokens) const {
  if (word.size() > kMaxWordBytes) return false;
  const Key key = key_of(word);
  const Entry& entry = entries_[key.hash(owner) % kNumEntries];
  if (entry.owner != owner || entry.key != key) return false;
  uint32_t begin = 0;
  for (size_t i = 0; i < entry.num_tokens; ++i) {
    tokens.push_back({entry.ids[i], begin, entry.ends[i]});
    begin = entry.ends[i];
  }
  return true;
}

void WordCache::store(uint64_t owner, std::string_view word, const std::vector<ModelToken>& tokens, size_t first) {
  const size_t count = tokens.size() - first;
  if (word.size() > kMaxWordBytes || count > kMaxTokens) return;
  for (size_t i = 0; i < count; ++i) {
    if (tokens[first + i].begin != (i == 0 ? 0 : tokens[first + i - 1].end)) return;
  }
  const Key key = key_of(word);
  Entry& entry = entries_[key.hash(owner) % kNumEntries];
  entry.key = key;
  entry.owner = owner;
  entry.num_tokens = static_cast<uint8_t>(count);
  for (size_t i = 0; i < count; ++i) {
    entry.ids[i] = tokens[first + i].id;
    entry.ends[i] = static_cast<uint8_t>(tokens[first + i].end);
  }
}

}  // namespace millrace
