#include "millrace/command_line/disk_cache_options.h"

#include <cerrno>
#include <cstdint>
#include <iostream>
#include <string>

#include <fmt/format.h>

#include "millrace/command_line/number_options.h"
#include "millrace/formats/error.h"

namespace millrace {

namespace po = boost::program_options;

void add_disk_cache_options(po::options_description& options) {
  // clang-format off
  options.add_options()
      ("cache-dir", po::value<std::string>(),
       "keep what is read of shards at URLs in this folder, for later epochs, runs and processes; one of its own")
      ("cache-bytes", whole_number<int64_t>(nullptr, {1, limits::kAny}),
       "the most bytes of --cache-dir; those go that were not used for longest; without it: nine tenths of "
       "what the disk has room for");
  // clang-format on
}

DiskCacheOptions disk_cache_options(const po::variables_map& given) {
  DiskCacheOptions options;
  if (given.contains("cache-dir")) options.folder = given["cache-dir"].as<std::string>();
  if (given.contains("cache-dir") && options.folder.empty()) {
    throw ErrorException(ErrorCode::kInvalidArgument, "--cache-dir is empty");
  }
  if (given.contains("cache-bytes")) {
    if (options.folder.empty()) {
      throw ErrorException(ErrorCode::kInvalidArgument, "--cache-bytes has no effect without --cache-dir");
    }
    options.bytes = static_cast<uint64_t>(given["cache-bytes"].as<int64_t>());
  }
  options.on_end = [](const std::string& why) {
    std::cerr << fmt::format("{}: --cache-dir: nothing more is written into it: {}\n", program_invocation_short_name,
                             why);
  };
  return options;
}

}  // namespace millrace
