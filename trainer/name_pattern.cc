#include "millrace/trainer/name_pattern.h"

#include <utility>

#include <fmt/format.h>
#include <re2/re2.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

constexpr size_t kMostShown = 80;

}  // namespace

NamePattern::NamePattern(std::string field, std::string pattern)
    : field_(std::move(field)), pattern_(std::move(pattern)) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  regex_ = std::make_shared<const re2::RE2>(pattern_, options);
  if (!regex_->ok())
    refuse(fmt::format("is no regular expression of RE2: {}", std::string_view(regex_->error()).substr(0, kMostShown)));
}

bool NamePattern::matches(const Parameter& parameter) const { return re2::RE2::PartialMatch(parameter.name, *regex_); }

void NamePattern::refuse(const std::string& what) const {
  const std::string shown = pattern_.size() <= kMostShown ? pattern_ : pattern_.substr(0, kMostShown) + "...";
  throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{} '{}' {}", field_, shown, what));
}

}  // namespace millrace
