#include "millrace/formats/storage/remote/utc_time.h"

#include <algorithm>
#include <charconv>

namespace millrace {
namespace {

using std::chrono::system_clock;

// Digits from the front of the text.
bool take_number(std::string_view& text, size_t digits, int& number) {
  if (text.size() < digits) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, number);
  if (error != std::errc() || end != text.data() + digits || text.front() == '-') return false;
  text.remove_prefix(digits);
  return true;
}

bool take(std::string_view& text, std::string_view one_of) {
  if (text.empty() || one_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::optional<system_clock::time_point> parse_utc_time(std::string_view text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (!take_number(text, 4, year) || !take(text, "-") || !take_number(text, 2, month) || !take(text, "-") ||
      !take_number(text, 2, day) || !take(text, "Tt ") || !take_number(text, 2, hour) || !take(text, ":") ||
      !take_number(text, 2, minute) || !take(text, ":") || !take_number(text, 2, second)) {
    return std::nullopt;
  }
  if (take(text, ".")) {  // a fraction of a second is of no use here
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (digits == 0) return std::nullopt;
    text.remove_prefix(digits);
  }
  int offset = 0;  // minutes
  if (!take(text, "Zz")) {
    const bool is_west = text.starts_with('-');
    int offset_minutes = 0;
    if (!take(text, "+-") || !take_number(text, 2, offset)) return std::nullopt;
    take(text, ":");
    if (!take_number(text, 2, offset_minutes)) return std::nullopt;
    offset = (is_west ? -1 : 1) * (60 * offset + offset_minutes);
  }
  const std::chrono::year_month_day date(std::chrono::year(std::min(year, 2200)),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day)));
  if (!text.empty() || !date.ok() || year < 1970 || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  return std::chrono::sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute - offset) +
         std::chrono::seconds(second);
}

}  // namespace millrace
