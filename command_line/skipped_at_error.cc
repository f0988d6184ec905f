#include "millrace/command_line/skipped_at_error.h"

#include <exception>
#include <iostream>

namespace millrace {

SkippedAtError::SkippedAtError(std::function<std::string()> report)
    : report_(std::move(report)), exceptions_before_(std::uncaught_exceptions()) {}

SkippedAtError::~SkippedAtError() {
  if (std::uncaught_exceptions() <= exceptions_before_) return;
  try {
    std::cerr << report_() << std::flush;
  } catch (...) {  // the error that is on its way matters more
  }
}

}  // namespace millrace
