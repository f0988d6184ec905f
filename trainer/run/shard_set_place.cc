#include "millrace/trainer/run/shard_set_place.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/formats/storage/shown_url.h"
#include "millrace/trainer/run/shard_set_bucket.h"
#include "millrace/trainer/run/shard_set_folder.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

void check(const ShardSetOptions& options) {
  if (options.splits.empty()) refuse("a set of shards has no split");
  for (const ShardSplit& split : options.splits) {
    if (split.records_per_shard < 0) {
      refuse(fmt::format("records_per_shard is {}, must be at least 0", split.records_per_shard));
    }
    if (!split.file_name) refuse("a split of a set of shards has no file_name");
    if (!split.folder.empty()) check_name_in_set(split.folder);
  }
  if (const RE2 names(options.shard_names, RE2::Quiet); !names.ok()) {
    refuse(fmt::format("shard_names is '{}': {}", options.shard_names, names.error()));
  }
}

}  // namespace

bool is_shard_of(const ShardSetOptions& options, const std::string& name) {
  return RE2::FullMatch(name, options.shard_names);
}

void check_name_in_set(const std::string& name) {
  const bool is_plain = !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
  if (!is_plain || name == ShardSetFolder::kOld || name == ShardSetFolder::kIncomplete) {
    refuse(fmt::format("'{}' is no name in a set of shards", name));
  }
}

std::unique_ptr<ShardSetPlace> ShardSetPlace::open(const std::string& folder, const ShardSetOptions& options) {
  check(options);
  if (is_in_bucket(folder)) return std::make_unique<ShardSetBucket>(without_slash(folder), options);
  if (RemoteStorage::opens(folder)) {
    refuse(fmt::format("'{}' is at a URL of HTTP: shards are written to local folders and to buckets, s3:// and gs://",
                       shown_url(folder)));
  }
  return std::make_unique<ShardSetFolder>(folder, options);
}

}  // namespace millrace
