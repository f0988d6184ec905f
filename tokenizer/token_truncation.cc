#include "millrace/tokenizer/token_truncation.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/utf8.h"

namespace millrace {

TokenTruncation TokenTruncation::read(const JsonNode& node) {
  node.require_members_among({"direction", "max_length", "strategy", "stride"});
  TokenTruncation truncation;
  if (const auto direction = node.find("direction")) truncation.direction = read_token_end(*direction);
  truncation.max_length = node.member("max_length").count();
  const JsonNode strategy = node.member("strategy");
  const std::string name = strategy.string();
  if (name == "LongestFirst") {
    truncation.strategy = Strategy::kLongestFirst;
  } else if (name == "OnlyFirst") {
    truncation.strategy = Strategy::kOnlyFirst;
  } else if (name == "OnlySecond") {
    truncation.strategy = Strategy::kOnlySecond;
  } else {
    strategy.fail(fmt::format("expected 'LongestFirst', 'OnlyFirst' or 'OnlySecond', found '{}'", excerpt(name)));
  }
  truncation.stride = node.member("stride").count();
  return truncation;
}

nlohmann::ordered_json TokenTruncation::to_json() const {
  const char* name = strategy == Strategy::kLongestFirst ? "LongestFirst"
                     : strategy == Strategy::kOnlyFirst  ? "OnlyFirst"
                                                         : "OnlySecond";
  return {
      {"direction", millrace::to_json(direction)}, {"max_length", max_length}, {"strategy", name}, {"stride", stride}};
}

std::pair<size_t, size_t> TokenTruncation::lengths(size_t first, size_t second, bool pair, size_t num_added) const {
  if (max_length < num_added) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("truncation.max_length is {}, but {} special tokens are added to each {}",
                                     max_length, num_added, pair ? "pair" : "text"));
  }
  const size_t limit = max_length - num_added;
  if (first + second <= limit) return {first, second};
  if (limit == 0) return {0, 0};
  if (strategy == Strategy::kLongestFirst) {
    if (!pair) return {limit, 0};
    size_t shorter = std::min(first, second);
    size_t longer = shorter > limit ? shorter : std::max(shorter, limit - shorter);
    if (shorter + longer > limit) {
      shorter = limit / 2;
      longer = limit - shorter;
    }
    return first > second ? std::pair(longer, shorter) : std::pair(shorter, longer);
  }
  const size_t too_many = first + second - limit;
  const bool cut_first = strategy == Strategy::kOnlyFirst;
  if (!cut_first && !pair) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         "truncation.strategy is OnlySecond, but there is no second text to cut");
  }
  size_t& length = cut_first ? first : second;
  if (length <= too_many) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("truncation.strategy {} cannot cut {} tokens off the {} of the {} text",
                    cut_first ? "OnlyFirst" : "OnlySecond", too_many, length, cut_first ? "first" : "second"));
  }
  length -= too_many;
  return {first, second};
}

}  // namespace millrace
