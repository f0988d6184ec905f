#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/command_line/command_line.h"
#include "millrace/formats/compression/compression.h"

namespace millrace {

/// Options that the programs for data sets share.
struct ShardProgramArguments {
  std::vector<std::string> paths;          ///< of the shards, sorted, each once
  std::optional<Compression> compression;  ///< nothing: as each shard's first bytes say
  uint64_t max_record_bytes = 0;
  int threads = 1;    ///< at least 1
  bool json = false;  ///< one JSON object instead of text
};

/// Parses a command line `SHARDS... [options]`; nothing when `--help` was asked for. Options that `more` declares are
/// taken too; each of `flags` is set when its option, which has no value, is given. A shard is a file, or a glob that
/// matches at least one; the indexes and the temporary files that globs match are left out. Throws `kInvalidArgument`
/// with one line.
[[nodiscard]] std::optional<ShardProgramArguments> parse_shard_arguments(
    int argc, const char* const* argv, ProgramText text, const boost::program_options::options_description& more,
    const std::map<std::string, bool*>& flags = {});

}  // namespace millrace
