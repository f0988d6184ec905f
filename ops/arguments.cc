#include "millrace/ops/arguments.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/formats/error.h"

namespace millrace {

void refuse_argument(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

namespace description {

std::string quoted(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text.append(1, '\\') += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      text += fmt::format("\\x{:02x}", c);
    } else {
      text += c;
    }
  }
  return text + '"';
}

// Another text than that of a whole number.
std::string text_of(double number) {
  const std::string text = fmt::to_string(number);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

std::string text_of(const std::vector<bool>& values) {
  constexpr size_t kMostDigits = 64;
  std::string digits;
  for (const bool value : values) digits += value ? '1' : '0';
  if (digits.size() <= kMostDigits) return '"' + digits + '"';
  return fmt::format("{} of digest {:016x}", digits.size(), XXH3_64bits(digits.data(), digits.size()));
}

}  // namespace description

}  // namespace millrace
