#pragma once

#include <initializer_list>
#include <string_view>

#include "millrace/formats/error.h"

namespace millrace::test {

inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

/// What a reader may say of any bytes: one of the codes of its documentation, in a line that does not repeat them all.
inline void require_refusal(const ErrorException& exception, std::initializer_list<ErrorCode> codes) {
  constexpr size_t kLongestMessage = 2000;
  const Error& error = exception.error();
  bool documented = false;
  for (const ErrorCode code : codes) documented = documented || error.code == code;
  require(documented && !error.message.empty() && error.message.size() <= kLongestMessage);
}

}  // namespace millrace::test
