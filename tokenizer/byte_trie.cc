#include "millrace/tokenizer/byte_trie.h"

#include <algorithm>

namespace millrace {
namespace {

constexpr size_t kNumBytes = 256;

struct Range {
  size_t begin;
  size_t end;
  size_t depth;
  ByteTrie::Node node;
};

}  // namespace

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, int32_t>> entries) {
  std::erase_if(entries, [](const auto& entry) { return entry.first.empty(); });
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  units_.resize(1 + kNumBytes);
  // Children begin after the root, so the root is nobody's child.
  size_t first_candidate = 1;
  std::vector<std::pair<uint8_t, size_t>> children;  // byte, first entry
  std::vector<Range> open{{0, entries.size(), 0, kRoot}};
  while (!open.empty()) {
    const Range range = open.back();
    open.pop_back();
    children.clear();
    for (size_t i = range.begin; i < range.end; ++i) {
      const auto [key, value] = entries[i];
      if (key.size() == range.depth) {
        units_[range.node].value = value;
        continue;
      }
      const auto byte = static_cast<uint8_t>(key[range.depth]);
      if (children.empty() || children.back().first != byte) children.emplace_back(byte, i);
    }
    if (children.empty()) {
      units_[range.node].base = 1;
      continue;
    }
    // The first place where all children fall on free units.
    size_t num_taken = 0;
    size_t base = 0;
    for (size_t at = std::max<size_t>(first_candidate, children[0].first + 1);; ++at) {
      if (units_.size() < at + kNumBytes) units_.resize(2 * (at + kNumBytes));
      if (units_[at].parent != kNowhere) {
        ++num_taken;
        continue;
      }
      base = at - children[0].first;
      const bool free = std::all_of(children.begin(), children.end(),
                                    [&](const auto& child) { return units_[base + child.first].parent == kNowhere; });
      if (!free) continue;
      // Where nearly everything is taken, later searches need not look again.
      const size_t begin = std::max<size_t>(first_candidate, children[0].first + 1);
      if (20 * num_taken >= 19 * (at - begin + 1)) first_candidate = at;
      break;
    }
    units_[range.node].base = static_cast<uint32_t>(base);
    for (size_t c = 0; c < children.size(); ++c) {
      const auto child = static_cast<Node>(base + children[c].first);
      units_[child].parent = range.node;
      open.push_back(
          {children[c].second, c + 1 < children.size() ? children[c + 1].second : range.end, range.depth + 1, child});
    }
  }
  // Every base + byte stays inside, so a step needs no check.
  size_t used = 1;
  for (size_t i = 0; i < units_.size(); ++i) {
    if (units_[i].parent != kNowhere || i == kRoot) used = std::max<size_t>(used, std::max<size_t>(i, units_[i].base));
  }
  units_.resize(used + kNumBytes);
  units_.shrink_to_fit();
}

std::optional<int32_t> ByteTrie::find(std::string_view key) const {
  Node node = kRoot;
  for (const char byte : key) {
    node = step(node, byte);
    if (node == kNowhere) return std::nullopt;
  }
  return value(node) >= 0 ? std::optional(value(node)) : std::nullopt;
}

}  // namespace millrace
