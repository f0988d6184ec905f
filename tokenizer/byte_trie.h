#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {

/// A set of strings with a value each, as a double-array trie over bytes (Aoe 1989): a step costs one load. Immutable;
/// any thread.
class ByteTrie {
 public:
  using Node = uint32_t;
  static constexpr Node kRoot = 0;
  static constexpr Node kNowhere = UINT32_MAX;

  ByteTrie() : ByteTrie(std::vector<std::pair<std::string_view, int32_t>>()) {}
  /// `entries` in any order; empty keys are left out, and of equal keys the last one's value counts. Values are not
  /// negative.
  explicit ByteTrie(std::vector<std::pair<std::string_view, int32_t>> entries);

  /// The node that `byte` leads to, or `kNowhere`.
  Node step(Node node, char byte) const {
    const uint32_t next = units_[node].base + static_cast<uint8_t>(byte);
    return units_[next].parent == node ? next : kNowhere;
  }
  /// The value of the string that ends at this node, or -1.
  int32_t value(Node node) const { return units_[node].value; }

  /// The value of `key`.
  std::optional<int32_t> find(std::string_view key) const;

 private:
  struct Unit {
    uint32_t base = 0;           // where the children begin: the child for byte b is units_[base + b]
    uint32_t parent = kNowhere;  // kNowhere: the unit is free
    int32_t value = -1;
  };

  std::vector<Unit> units_;
};

}  // namespace millrace
