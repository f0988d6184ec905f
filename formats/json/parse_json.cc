#include "millrace/formats/json/parse_json.h"

#include <cerrno>
#include <system_error>

#include "millrace/formats/text/byte_order_mark.h"

namespace millrace {

PointInNumbers::PointInNumbers() {
  static const locale_t c_locale = ::newlocale(LC_ALL_MASK, "C", locale_t());
  if (c_locale == locale_t()) throw std::system_error(errno, std::generic_category(), "no locale C");
  before_ = ::uselocale(c_locale);
}

PointInNumbers::~PointInNumbers() { ::uselocale(before_); }

bool is_nested_too_deeply(std::string_view json) {
  int depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') {
      in_text = !in_text;
    } else if (in_text) {
      if (c == '\\') ++i;
    } else if (c == '[' || c == '{') {
      if (++depth > kMostJsonDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

std::string unreadable_json(std::string_view json) {
  if (std::string other = other_encoding(json); !other.empty()) return other;
  if (const size_t at = json.find('\0'); at != std::string_view::npos) {
    return fmt::format("not JSON (byte {} is 0)", at + 1);
  }
  return "";
}

}  // namespace millrace
