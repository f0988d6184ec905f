#include "tools/shard_arguments.h"

#include <algorithm>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "millrace/command_line/listed_shards.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/error.h"
#include "millrace/formats/records/shards.h"
#include "millrace/formats/storage/remote/routed_storage.h"

namespace millrace {
namespace {

namespace po = boost::program_options;

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

std::vector<std::string> shards_of(const std::vector<std::string>& arguments) {
  std::vector<std::string> paths;
  for (const std::string& argument : arguments) {
    const char* const special = RemoteStorage::opens(argument) ? "*?[{" : "*?[";
    const bool is_glob = (argument.starts_with('@') || argument.find_first_of(special) != std::string::npos) &&
                         !std::filesystem::exists(argument);
    if (!is_glob) {
      paths.push_back(argument);
      continue;
    }
    const Shards matches = listed_shards(argument);
    for (const Shard& shard : matches.list()) paths.push_back(shard.path);
  }
  paths = located(std::move(paths));
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

}  // namespace

std::optional<ShardProgramArguments> parse_shard_arguments(int argc, const char* const* argv, ProgramText text,
                                                           const po::options_description& more,
                                                           const std::map<std::string, bool*>& flags) {
  ShardProgramArguments arguments;
  std::vector<std::string> shards;
  std::string compression;
  int64_t max_record_bytes = int64_t{1} << 30;
  int64_t threads = 0;
  po::options_description visible("options");
  // clang-format off
  visible.add_options()
      ("compression", po::value(&compression), "how the shards are stored: none, zlib, gzip or zstd; without it each shard's "
                                               "first bytes say so")
      ("max-record-bytes", whole_number(max_record_bytes, {1, limits::kAny}),
       "longer records are an error")
      ("threads", whole_number(threads, {0, limits::kThreads}), "shards that are read at a time; 0: one for each core")
      ("json", "one JSON object instead of text");
  // clang-format on
  for (const auto& option : more.options()) visible.add(option);
  po::options_description hidden;
  hidden.add_options()("shards", po::value(&shards));
  text.usage = "SHARDS... [options]";
  const std::string name = text.name;
  const auto given = parse_command_line(argc, argv, text, visible, {"shards..."}, hidden);
  if (!given) return std::nullopt;
  if (shards.empty()) refuse(fmt::format("SHARDS is missing: files, globs, URLs or @LIST; see {} --help", name));
  if (!compression.empty()) {
    arguments.compression = compression_from_name(compression);
    if (!arguments.compression)
      refuse(fmt::format("--compression is '{}', must be none, zlib, gzip or zstd", compression));
  }
  arguments.paths = shards_of(shards);
  arguments.max_record_bytes = static_cast<uint64_t>(max_record_bytes);
  arguments.threads =
      threads > 0 ? static_cast<int>(threads) : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  for (const auto& [option, flag] : flags) *flag = given->contains(option);
  arguments.json = given->contains("json");
  return arguments;
}

}  // namespace millrace
