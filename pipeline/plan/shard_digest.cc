#include "millrace/pipeline/plan/shard_digest.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/formats/tfrecord/index/shard_fingerprint.h"

namespace millrace {
namespace {

size_t num_groups(size_t num_shards) { return std::min(num_shards, ShardDigest::kMostGroups); }
size_t first_of_group(size_t group, size_t num_shards) { return group * num_shards / num_groups(num_shards); }

void mix(uint64_t& digest, uint64_t value) {
  const std::array<uint64_t, 2> pair = {digest, value};
  digest = XXH3_64bits(pair.data(), sizeof pair);
}

}  // namespace

ShardDigest read_shard_digest(Storage& storage, const std::vector<std::string>& paths, const StorageWait& wait) {
  const std::vector<ShardFingerprint> shards = read_shard_fingerprints(storage, paths, wait);
  ShardDigest digest;
  digest.num_shards = static_cast<int64_t>(shards.size());
  for (size_t group = 0; group < num_groups(shards.size()); ++group) {
    uint64_t names = 0;
    uint64_t sizes = 0;
    uint64_t contents = 0;
    for (size_t i = first_of_group(group, shards.size()); i < first_of_group(group + 1, shards.size()); ++i) {
      const ShardFingerprint& shard = shards[i];
      mix(names, XXH3_64bits(shard.name.data(), shard.name.size()));
      mix(sizes, shard.bytes);
      const std::array<uint64_t, 2> ends = {shard.first, shard.last};
      mix(contents, XXH3_64bits(ends.data(), sizeof ends));
    }
    digest.names.push_back(names);
    digest.sizes.push_back(sizes);
    digest.contents.push_back(contents);
  }
  return digest;
}

std::string ShardDigest::difference(const ShardDigest& saved, const std::vector<std::string>& paths) const {
  if (num_shards != saved.num_shards) {
    return fmt::format("there are {} shards, in the state there were {}", num_shards, saved.num_shards);
  }
  const auto unlike = [&](const std::vector<uint64_t>& here, const std::vector<uint64_t>& there,
                          std::string_view what) -> std::string {
    const auto group =
        static_cast<size_t>(std::mismatch(here.begin(), here.end(), there.begin(), there.end()).first - here.begin());
    if (group == here.size()) return "";
    const size_t first = first_of_group(group, paths.size());
    const size_t last = first_of_group(group + 1, paths.size()) - 1;
    if (first == last) return fmt::format("shard {} has {}", paths[first], what);
    return fmt::format("one of the shards from {} to {} has {}", paths[first], paths[last], what);
  };
  if (std::string text = unlike(names, saved.names, "another name or place in the list"); !text.empty()) return text;
  if (std::string text = unlike(sizes, saved.sizes, "another size"); !text.empty()) return text;
  return unlike(contents, saved.contents, "another content");
}

}  // namespace millrace
