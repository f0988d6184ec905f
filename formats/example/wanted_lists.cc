#include "millrace/formats/example/wanted_lists.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/example/feature_columns.h"

namespace millrace::wire {

WantedLists::WantedLists(const std::vector<FeatureDescription>& features, std::string_view operator_name) {
  std::unordered_map<std::string, size_t> known;
  for (const FeatureDescription& feature : features) {
    const bool fixed_len = feature.kind == FeatureDescription::kFixedLen;
    std::vector<size_t>& of_this = of_feature_.emplace_back();
    for (const ListKey& key : keys_of(feature)) {
      const auto [entry, is_new] = known.try_emplace(key.key, lists_.size());
      const size_t found = entry->second;
      of_this.push_back(found);
      if (is_new) {
        lists_.push_back({key.key, key.stored, fixed_len});
        continue;
      }
      // TensorFlow takes another entry of a key that occurs twice for a feature of fixed length.
      if (fixed_len || lists_[found].fixed_len || lists_[found].stored != key.stored) {
        throw ErrorException(
            ErrorCode::kInvalidArgument,
            fmt::format("{}: feature '{}' is asked for twice{}", operator_name, key.key,
                        lists_[found].stored != key.stored
                            ? fmt::format(", as {} and as {}", to_string(lists_[found].stored), to_string(key.stored))
                            : ""));
      }
    }
  }
}

size_t WantedLists::find(std::string_view key, size_t expected) const {
  for (size_t i = expected; i < lists_.size(); ++i) {
    if (lists_[i].key == key) return i;
  }
  for (size_t i = 0; i < std::min(expected, lists_.size()); ++i) {
    if (lists_[i].key == key) return i;
  }
  return lists_.size();
}

}  // namespace millrace::wire
