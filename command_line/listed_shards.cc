#include "millrace/command_line/listed_shards.h"

#include <fmt/format.h>

#include "millrace/command_line/terminal_line.h"
#include "millrace/formats/storage/remote/routed_storage.h"

namespace millrace {
namespace {

GlobProgress shown_on(TerminalLine& line, const std::string& pattern) {
  return [&](size_t names) {
    if (line.due()) line.show(fmt::format("listing {}: {} objects", pattern, names));
  };
}

}  // namespace

Shards listed_shards(const std::string& pattern) {
  TerminalLine line;
  return Shards::glob(pattern, shown_on(line, pattern));
}

std::vector<std::string> listed_paths(const std::string& pattern) {
  TerminalLine line;
  return glob_anywhere(pattern, shown_on(line, pattern));
}

}  // namespace millrace
