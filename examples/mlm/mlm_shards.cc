#include "examples/mlm/mlm_shards.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "millrace/command_line/listed_shards.h"
#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/trainer/run/missing_data.h"

namespace millrace {
namespace {

std::optional<Shards> shards_of(const std::string& folder) {
  namespace fs = std::filesystem;
  if (folder.starts_with("http://") || folder.starts_with("https://")) {
    throw ErrorException({.code = ErrorCode::kInvalidArgument,
                          .message = "its shards are found by a listing, which s3:// and gs:// have and HTTP has not",
                          .shard = folder});
  }
  const bool is_local = !RemoteStorage::opens(folder);
  if (is_local && (!fs::is_directory(folder) || fs::is_empty(folder))) return std::nullopt;
  const std::vector<std::string> files = glob_anywhere(path_in(folder, "dataset-*"));
  if (files.empty() && !is_local) return std::nullopt;
  // A set is stored in one way.
  const bool is_zstd =
      std::ranges::any_of(files, [](const std::string& file) { return file.ends_with(".tfrecord.zst"); });
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
