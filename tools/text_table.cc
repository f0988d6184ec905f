#include "tools/text_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/formats/utf8.h"

namespace millrace {

void TextTable::add(std::vector<std::string> row) {
  for (std::string& cell : row) cell = printable(cell);
  rows_.push_back(std::move(row));
}

std::string TextTable::text() const {
  if (rows_.size() == 1) return "";
  const size_t num_columns = rows_.front().size();
  std::vector<size_t> widths(num_columns);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < num_columns; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    for (size_t i = 0; i < num_columns; ++i) {
      if (i + 1 == num_columns) {
        text += row[i];
      } else if (i == 0) {
        text += fmt::format("{:<{}}  ", row[i], widths[i]);
      } else {
        text += fmt::format("{:>{}}  ", row[i], widths[i]);
      }
    }
    text += '\n';
  }
  return text;
}

std::string with_commas(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string counted(uint64_t number, const std::string& noun) {
  return fmt::format("{} {}{}", with_commas(number), noun, number == 1 ? "" : "s");
}

}  // namespace millrace
