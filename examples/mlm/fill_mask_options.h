#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace millrace {

/// The command line of `fill_mask`.
struct FillMaskOptions {
  std::string model = "mlm/model";
  std::vector<std::string> ignored_config_fields;
  std::vector<std::string> texts;   ///< those of the command line, then the lines of `--text-file`
  std::vector<std::string> places;  ///< of each, for messages: `line 3 of FILE`, or the text
  int64_t top = 5;
  std::string logits;  ///< empty: they are not written
  bool json = false;
  bool brief = false;  ///< a line a text
};

/// Parses the command line and reads the text file; nothing when `--help` was asked for and printed. Throws
/// `kInvalidArgument` or `kIo` with one line that says what is wrong.
[[nodiscard]] std::optional<FillMaskOptions> parse_fill_mask_options(int argc, const char* const* argv);

}  // namespace millrace
