#include "millrace/formats/text/byte_order_mark.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace millrace {
namespace {

using std::string_view_literals::operator""sv;

struct Mark {
  std::string_view bytes;
  std::string_view encoding;
};
// The longer before those that they begin with.
constexpr std::array kMarks = {Mark{"\xff\xfe\0\0"sv, "UTF-32LE"}, Mark{"\0\0\xfe\xff"sv, "UTF-32BE"},
                               Mark{"\xff\xfe"sv, "UTF-16LE"}, Mark{"\xfe\xff"sv, "UTF-16BE"}, Mark{kUtf8Mark, ""}};

}  // namespace

bool has_part_of_mark(std::string_view text) {
  return std::ranges::any_of(
      kMarks, [&](const Mark& mark) { return text.size() < mark.bytes.size() && mark.bytes.starts_with(text); });
}

std::string other_encoding(std::string_view text) {
  const auto* const mark =
      std::ranges::find_if(kMarks, [&](const Mark& other) { return text.starts_with(other.bytes); });
  if (mark == kMarks.end() || mark->encoding.empty()) return "";
  const auto* const bytes = reinterpret_cast<const unsigned char*>(mark->bytes.data());
  return fmt::format(
      "the text is {0} by its first bytes ({1:02x}), and UTF-8 is read here: iconv -f {2} -t UTF-8 makes "
      "it of that",
      mark->encoding, fmt::join(bytes, bytes + mark->bytes.size(), " "), mark->encoding.substr(0, 6));
}

}  // namespace millrace
