#include "millrace/formats/storage/remote/url_pattern.h"

#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/byte_range.h"
#include "millrace/formats/storage/shown_url.h"

namespace millrace {
namespace {

constexpr uint64_t kMostUrls = 1'000'000;

[[noreturn]] void refuse(const std::string& what) { throw ErrorException(ErrorCode::kInvalidArgument, what); }

// `{A..B}` in a text.
struct Numbers {
  size_t begin = 0;
  size_t end = 0;
  uint64_t first = 0;
  uint64_t last = 0;
  size_t digits = 0;
};

std::optional<Numbers> find_numbers(std::string_view text) {
  for (size_t begin = text.find('{'); begin != std::string_view::npos; begin = text.find('{', begin + 1)) {
    const size_t end = text.find('}', begin);
    if (end == std::string_view::npos) break;
    const std::string_view inside = text.substr(begin + 1, end - begin - 1);
    const size_t dots = inside.find("..");
    if (dots == std::string_view::npos) continue;
    const auto first = parse_count(inside.substr(0, dots));
    const auto last = parse_count(inside.substr(dots + 2));
    if (first && last) return Numbers{.begin = begin, .end = end + 1, .first = *first, .last = *last, .digits = dots};
  }
  return std::nullopt;
}

// `shown`: the whole pattern, for messages.
std::vector<std::string> expand(const std::string& pattern, const std::string& shown) {
  const auto numbers = find_numbers(pattern);
  if (!numbers) return {pattern};
  if (numbers->last < numbers->first || numbers->last - numbers->first >= kMostUrls) {
    refuse(fmt::format("{}: from {} to {} are not 1 to {} URLs", shown, numbers->first, numbers->last, kMostUrls));
  }
  std::vector<std::string> urls;
  const std::string begin = pattern.substr(0, numbers->begin);
  const std::vector<std::string> ends = expand(pattern.substr(numbers->end), shown);
  if ((numbers->last - numbers->first + 1) * ends.size() > kMostUrls) {
    refuse(fmt::format("{}: these are more than {} URLs", shown, kMostUrls));
  }
  urls.reserve((numbers->last - numbers->first + 1) * ends.size());
  for (uint64_t number = numbers->first; number <= numbers->last; ++number) {
    for (const std::string& end : ends) urls.push_back(fmt::format("{}{:0{}}{}", begin, number, numbers->digits, end));
  }
  return urls;
}

}  // namespace

std::vector<std::string> expand_url(const std::string& pattern) {
  const std::string shown = shown_url(pattern);
  if (pattern.find_first_of("*[") != std::string::npos) {
    refuse(
        fmt::format("{}: a server of HTTP lists nothing, so a pattern with * or [ matches nothing; give numbers, as in "
                    "part-{{00000..00127}}.tfrecord, or a list, @FILE",
                    shown));
  }
  return expand(pattern, shown);
}

}  // namespace millrace
