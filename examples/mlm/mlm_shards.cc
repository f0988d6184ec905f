#include "examples/mlm/mlm_shards.h"

#include <filesystem>

#include <fmt/format.h>

#include "millrace/command_line/listed_shards.h"
#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/trainer/run/missing_data.h"

namespace millrace {
namespace {

bool has_some(const std::string& folder) {
  namespace fs = std::filesystem;
  if (folder.starts_with("http://") || folder.starts_with("https://")) {
    throw ErrorException({.code = ErrorCode::kInvalidArgument,
                          .message = "its shards are found by a listing, which s3:// and gs:// have and HTTP has not",
                          .shard = folder});
  }
  if (RemoteStorage::opens(folder)) return !glob_anywhere(path_in(folder, "dataset-*")).empty();
  return fs::is_directory(folder) && !fs::is_empty(folder);
}

std::optional<Shards> shards_of(const std::string& folder) {
  if (!has_some(folder)) return std::nullopt;
  // A set is stored in one way.
  const bool is_zstd = !glob_anywhere(path_in(folder, "dataset-*.tfrecord.zst")).empty();
  const std::string ending = is_zstd ? ".tfrecord.zst" : ".tfrecord";
  return listed_shards(path_in(folder, "dataset-*" + ending)).counts_from("dataset-{index}-{count}" + ending);
}

}  // namespace

MlmShards MlmShards::find(const std::string& folder) {
  const auto train = shards_of(path_in(folder, "train"));
  if (!train) {
    throw MissingData(fmt::format("no shards in {}; prepare_tfrecord_shards writes them", path_in(folder, "train")));
  }
  return {.train = *train,
          .validation = shards_of(path_in(folder, "validation")),
          .statistics = find_shard_statistics(folder)};
}

}  // namespace millrace
