#include "millrace/command_line/listed_shards.h"

#include <fmt/format.h>

#include "millrace/command_line/terminal_line.h"

namespace millrace {

Shards listed_shards(const std::string& pattern) {
  TerminalLine line;
  return Shards::glob(pattern, [&](size_t names) {
    if (line.due()) line.show(fmt::format("listing {}: {} objects", pattern, names));
  });
}

}  // namespace millrace
