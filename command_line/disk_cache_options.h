#pragma once

#include <boost/program_options.hpp>

#include "millrace/formats/storage/remote/disk_cache_options.h"

namespace millrace {

/// Adds `--cache-dir` and `--cache-bytes` to the options of a program that reads shards.
void add_disk_cache_options(boost::program_options::options_description& options);

/// What was given of them. When the cache writes no more, a line on standard error says why. Throws `kInvalidArgument`
/// with one line.
[[nodiscard]] DiskCacheOptions disk_cache_options(const boost::program_options::variables_map& given);

}  // namespace millrace
