#pragma once

#include <optional>

#include "examples/text_to_text/preparation.h"

namespace millrace {

/// The command line of `prepare_text_to_text`.
struct PrepareTextToTextOptions {
  PreparationOptions preparation;
  bool json = false;
};

/// Parses the command line; nothing when `--help` was asked for and printed. Throws `kInvalidArgument` with one line
/// that says what is wrong.
[[nodiscard]] std::optional<PrepareTextToTextOptions> parse_prepare_options(int argc, const char* const* argv);

}  // namespace millrace
