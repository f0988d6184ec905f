#include "millrace/trainer/name_pattern.h"

#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

NamePattern::NamePattern(std::string field, std::string pattern)
    : field_(std::move(field)), pattern_(std::move(pattern)) {
  try {
    regex_.assign(pattern_);
  } catch (const std::regex_error& error) {
    refuse(fmt::format("is no regular expression: {}", error.what()));
  }
}

void NamePattern::refuse(const std::string& what) const {
  throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{} '{}' {}", field_, pattern_, what));
}

}  // namespace millrace
