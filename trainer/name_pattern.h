#pragma once

#include <memory>
#include <string>

#include "millrace/trainer/parameters.h"

namespace re2 {
class RE2;
}  // namespace re2

namespace millrace {

/// A choice of parameters: those whose name contains a match of a regular expression of RE2's syntax
/// (https://github.com/google/re2/wiki/Syntax), which takes time and memory in proportion to pattern and name.
/// Immutable; any thread.
class NamePattern {
 public:
  /// `field` is where the pattern stands, for messages. Throws `kInvalidArgument` for one that is no regular
  /// expression, has what RE2 does not take (back references, looking ahead or behind), or is too large.
  NamePattern(std::string field, std::string pattern);

  bool matches(const Parameter& parameter) const;
  /// Throws `kInvalidArgument` with field and pattern in front of what it does not do as it should.
  [[noreturn]] void refuse(const std::string& what) const;
  /// Refuses a pattern that found nothing, which is misspelt.
  void need_match(bool found) const {
    if (!found) refuse("matches no parameter");
  }

 private:
  std::string field_;
  std::string pattern_;
  std::shared_ptr<const re2::RE2> regex_;
};

}  // namespace millrace
