#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

/// So many shards a table lists all of; of more those that something is wrong with, since nobody reads the others.
inline constexpr size_t kMostListed = 100;

/// Rows of text in columns: the first and the last ones begin at the left, those between end at the right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> titles) : rows_{std::move(titles)} {}
  /// As many cells as there are titles; names in them may be any bytes (`printable`).
  void add(std::vector<std::string> row);
  /// The titles and all rows, each with its end of line; nothing where there is no row.
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// `1234567` as `1,234,567`.
[[nodiscard]] std::string with_commas(uint64_t number);
/// `1 record`, `1,000 records`.
[[nodiscard]] std::string counted(uint64_t number, const std::string& noun);

}  // namespace millrace
