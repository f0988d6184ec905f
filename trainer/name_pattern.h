#pragma once

#include <regex>
#include <string>

#include "millrace/trainer/parameters.h"

namespace millrace {

/// A choice of parameters: those whose name contains a match of a regular expression (ECMAScript). Immutable; any
/// thread.
class NamePattern {
 public:
  /// `field` is where the pattern stands, for messages. Throws `kInvalidArgument` for one that is no regular
  /// expression.
  NamePattern(std::string field, std::string pattern);

  bool matches(const Parameter& parameter) const { return std::regex_search(parameter.name, regex_); }
  /// Throws `kInvalidArgument` with field and pattern in front of what it does not do as it should.
  [[noreturn]] void refuse(const std::string& what) const;
  /// Refuses a pattern that found nothing, which is misspelt.
  void need_match(bool found) const {
    if (!found) refuse("matches no parameter");
  }

 private:
  std::string field_;
  std::string pattern_;
  std::regex regex_;
};

}  // namespace millrace
