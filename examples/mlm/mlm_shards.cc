#include "examples/mlm/mlm_shards.h"

#include <filesystem>

#include <fmt/format.h>

#include "millrace/formats/storage/local.h"
#include "millrace/trainer/run/missing_data.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

std::optional<Shards> shards_of(const fs::path& folder) {
  if (!fs::is_directory(folder) || fs::is_empty(folder)) return std::nullopt;
  // A set is stored in one way.
  const bool is_zstd = !glob_local((folder / "dataset-*.tfrecord.zst").string()).empty();
  const std::string ending = is_zstd ? ".tfrecord.zst" : ".tfrecord";
  return Shards::glob((folder / ("dataset-*" + ending)).string()).counts_from("dataset-{index}-{count}" + ending);
}

}  // namespace

MlmShards MlmShards::find(const std::string& folder) {
  const auto train = shards_of(fs::path(folder) / "train");
  if (!train) {
    throw MissingData(fmt::format("no shards in {}/train; prepare_tfrecord_shards writes them", folder));
  }
  MlmShards shards{.train = *train, .validation = shards_of(fs::path(folder) / "validation")};
  if (fs::exists(fs::path(folder) / "statistics.json")) shards.statistics = read_shard_statistics(folder);
  return shards;
}

}  // namespace millrace
