#pragma once

#include <string>

#include "millrace/formats/error.h"

namespace millrace {

/// What a program throws for data that a step before it writes and that are not there yet. `--check` of such a program
/// goes on with what is known without them; to a training it is an error as any other.
class MissingData final : public ErrorException {
 public:
  explicit MissingData(const std::string& message) : ErrorException(ErrorCode::kIo, message) {}
};

}  // namespace millrace
