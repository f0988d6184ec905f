#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/// The table of a sentencepiece normalizer (`precompiled_charsmap`): strings and what is put in their place. Its layout
/// is four bytes of the size of a double-array trie (https://github.com/s-yata/darts-clone), the trie, and the
/// replacements, each with a zero after it; numbers are little endian. Immutable; any thread.
class CharacterMap {
 public:
  /// Nothing when the bytes are not such a table.
  static std::optional<CharacterMap> parse(std::string_view bytes);

  std::string bytes() const;

  /// What stands for the shortest beginning of `text` that the table has. In the Python package, and so in the files of
  /// its models, that is what stands for all of `text`.
  std::optional<std::string_view> find(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace millrace
