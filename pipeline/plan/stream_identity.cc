#include "millrace/pipeline/plan/stream_identity.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/pipeline/plan/plan_digest.h"
#include "millrace/pipeline/plan/shard_digest.h"

namespace millrace {
namespace {

uint64_t digest_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

// What decides the elements of an operator and those before it, but is no part of a state: whether their order can be
// had again, what is done about damage, and how many records a file was promised to have.
void add_rules(const PlanNode& node, std::vector<uint64_t>& parts) {
  for (const PlanNodePtr& input : node.inputs) add_rules(*input, parts);
  parts.push_back(digest_of(checkpoint_blocker(node)));
  parts.push_back(digest_of(node.text(Effect::kDamage, /*all=*/true)));
  const Shards* const shards = node.op->shards();
  if (shards == nullptr) return;
  for (size_t shard = 0; shard < shards->size(); ++shard) {
    if (const std::optional<uint64_t> count = shards->count(shard)) parts.insert(parts.end(), {shard, *count});
  }
}

// The method of Dataset that was given a function without a name, by which it could be told from other ones; or
// nothing.
std::string_view unnamed_function(const PlanNode& node) {
  for (const PlanNodePtr& input : node.inputs) {
    if (const std::string_view method = unnamed_function(*input); !method.empty()) return method;
  }
  return node.arguments != nullptr && node.arguments->has_unnamed_function() ? node.op->name() : "";
}

}  // namespace

StreamIdentity identity_of(std::string_view keeper, const PlanNodePtr& plan) {
  if (const std::string_view method = unnamed_function(*plan); !method.empty()) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{}: the function of {} before it has no name, so a later run could not tell what "
                                     "was written from what another function gives; name it",
                                     keeper, method));
  }
  return {.digest =
              [plan](Storage& storage, const StorageWait& wait) {
                std::vector<uint64_t> parts;
                for (const PlanDigest::Operator& op : digest_of(*plan).operators) parts.push_back(op.digest);
                add_rules(*plan, parts);
                const ShardDigest shards = read_shard_digest(storage, shard_paths(*plan), wait);
                parts.push_back(static_cast<uint64_t>(shards.num_shards));
                for (const std::vector<uint64_t>* of : {&shards.names, &shards.sizes, &shards.contents}) {
                  parts.insert(parts.end(), of->begin(), of->end());
                }
                return XXH3_64bits(parts.data(), parts.size() * sizeof(uint64_t));
              },
          .cardinality = certain_cardinality(*plan)};
}

}  // namespace millrace
