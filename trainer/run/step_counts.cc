#include "millrace/trainer/run/step_counts.h"

#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "millrace/command_line/number_options.h"
#include "millrace/formats/error.h"
#include "millrace/formats/utf8.h"
#include "millrace/trainer/trainer_options.h"

namespace millrace {
namespace {

// The whole text as a number that is within these limits; nothing for another text.
template <typename T>
std::optional<T> number_in(std::string_view text, T least, T most) {
  T number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  // Not a number is in no range.
  if (error != std::errc() || stop != end || !(number >= least && number <= most)) return std::nullopt;
  return number;
}

// Of a text with this ending what is before it; nothing for another text.
std::optional<std::string_view> before(std::string_view text, std::string_view ending) {
  if (!text.ends_with(ending)) return std::nullopt;
  return text.substr(0, text.size() - ending.size());
}

[[noreturn]] void refuse(std::string_view option, const std::string& text, const std::string& possible) {
  throw ErrorException(ErrorCode::kInvalidArgument,
                       fmt::format("--{} is {}; {}", option, text.empty() ? "''" : printable(excerpt(text)), possible));
}

}  // namespace

std::string to_string(const Interval& interval) {
  if (interval.steps > 0 || interval.epochs == 1) return fmt::to_string(interval.steps);
  return fmt::format("{}epochs", interval.epochs);
}

Interval parse_interval(std::string_view option, const std::string& text) {
  if (const auto epochs = before(text, "epochs")) {
    if (const auto number = number_in<int64_t>(*epochs, 1, limits::kCount)) return {.steps = 0, .epochs = *number};
  } else if (const auto steps = number_in<int64_t>(text, 0, limits::kCount)) {
    return {.steps = *steps};
  }
  refuse(option, text, fmt::format("0 to {} are possible, or epochs such as 2epochs", limits::kCount));
}

std::string to_string(const Warmup& warmup) {
  return warmup.share > 0 ? fmt::format("{}%", 100 * warmup.share) : fmt::to_string(warmup.steps);
}

Warmup parse_warmup(std::string_view option, const std::string& text) {
  if (const auto percent = before(text, "%")) {
    if (const auto number = number_in<double>(*percent, 0, 100)) return {.share = *number / 100};
  } else if (const auto steps = number_in<int64_t>(text, 0, kMostSteps)) {
    return {.steps = *steps};
  }
  refuse(option, text, fmt::format("0 to {} are possible, or a share of the steps such as 10%", kMostSteps));
}

}  // namespace millrace
