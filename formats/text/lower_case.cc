#include "millrace/formats/text/lower_case.h"

#include <algorithm>

namespace millrace {

std::string lower_case(std::string_view text) {
  std::string result(text);
  // Not tolower: an I is no i in the locale of a Turkish program.
  std::ranges::transform(result, result.begin(), [](char c) { return 'A' <= c && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return result;
}

}  // namespace millrace
