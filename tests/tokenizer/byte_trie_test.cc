#include "millrace/tokenizer/byte_trie.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace millrace::byte_trie_test {
namespace {

// Strings of few letters, so that many are prefixes of others; a plain linear congruence is random enough.
std::map<std::string, int32_t> dense_strings(int count) {
  std::map<std::string, int32_t> strings;
  uint64_t state = 1;
  for (int i = 0; i < count; ++i) {
    std::string key;
    state = state * 6364136223846793005u + 1442695040888963407u;
    for (uint64_t bits = state >> 20, length = 1 + (state >> 60); key.size() < length; bits /= 5) {
      key.push_back("ab\xe2\xff\0"[bits % 5]);
    }
    strings[key] = i;
  }
  return strings;
}

ByteTrie trie_of(const std::map<std::string, int32_t>& strings) { return ByteTrie({strings.begin(), strings.end()}); }

TEST(ByteTrie, FindsEveryStringAndNothingElse) {
  const auto strings = dense_strings(20000);
  auto half = strings;
  int index = 0;
  std::erase_if(half, [&](const auto&) { return index++ % 2 == 0; });
  const ByteTrie trie = trie_of(half);
  ASSERT_GT(half.size(), 4000);
  for (const auto& [key, value] : strings) {
    EXPECT_EQ(trie.find(key), half.contains(key) ? std::optional(value) : std::nullopt);
  }
  EXPECT_EQ(trie.find(""), std::nullopt);
}

TEST(ByteTrie, StepsThroughThePrefixesOfAText) {
  const ByteTrie trie(std::vector<std::pair<std::string_view, int32_t>>{{"a", 1}, {"ab", 2}, {"abcd", 4}});
  std::vector<int32_t> values;
  ByteTrie::Node node = ByteTrie::kRoot;
  for (const char byte : std::string("abcdx")) {
    node = trie.step(node, byte);
    if (node == ByteTrie::kNowhere) break;
    values.push_back(trie.value(node));
  }
  EXPECT_EQ(node, ByteTrie::kNowhere);
  EXPECT_EQ(values, (std::vector<int32_t>{1, 2, -1, 4}));
}

TEST(ByteTrie, TakesTheLastValueOfAKeyThatComesTwiceAndNoEmptyKey) {
  const ByteTrie trie(std::vector<std::pair<std::string_view, int32_t>>{{"x", 5}, {"", 6}, {"x", 3}});
  EXPECT_EQ(trie.find("x"), 3);
  EXPECT_EQ(trie.find(""), std::nullopt);
}

TEST(ByteTrie, OfNothingFindsNothing) {
  const ByteTrie trie;
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(trie.step(ByteTrie::kRoot, static_cast<char>(byte)), ByteTrie::kNowhere);
  }
}

}  // namespace
}  // namespace millrace::byte_trie_test
