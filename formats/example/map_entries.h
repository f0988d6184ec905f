#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "millrace/formats/example/value_list.h"
#include "millrace/formats/example/wire.h"
#include "millrace/formats/utf8.h"

// The maps of Examples: key to Feature, or to FeatureList. Not for users.
namespace millrace::wire {

// How deep each message of an Example is in the record.
constexpr int kExampleDepth = 0;
constexpr int kFeaturesDepth = 1;
constexpr int kEntryDepth = 2;
constexpr int kFeatureDepth = 3;

inline void check_key(std::string_view key) {
  const size_t valid = valid_utf8_prefix(key);
  if (valid < key.size()) throw Malformed{"a key that is not UTF-8", key.data() + valid};
}

/// A map entry: the key, and the message, mostly in one part (protobuf joins more).
struct Entry {
  std::string_view key;
  std::string_view value = kEmptyMessage;
  std::vector<std::string_view> more;
};

/// Reads an entry, `depth` messages deep in the record. Throws `Malformed`. The last key is not checked.
inline Entry read_entry(std::string_view bytes, int depth) {
  Wire wire(bytes, depth);
  Entry entry;
  bool value_seen = false;
  while (!wire.done()) {
    const uint32_t field_tag = wire.read_tag();
    if (field_tag == tag(1, kDelimited)) {
      check_key(entry.key);
      entry.key = wire.delimited();
    } else if (field_tag == tag(2, kDelimited)) {
      const std::string_view part = wire.delimited();
      if (!value_seen) {
        entry.value = part;
      } else {
        if (entry.more.size() == kMostParts) throw Malformed{"a feature in more parts than are read", part.data()};
        entry.more.push_back(part);
      }
      value_seen = true;
    } else {
      wire.skip(field_tag);
    }
  }
  return entry;
}

/// The list of an entry of an Example.
inline ValueList list_of(const Entry& entry) {
  ValueList list;
  read_feature(entry.value, kFeatureDepth, list);
  for (const std::string_view part : entry.more) read_feature(part, kFeatureDepth, list);
  return list;
}

/// The entries of one record that are asked for, by number. More than a few need memory.
class WantedEntries {
 public:
  explicit WantedEntries(size_t count) {
    if (count > kFew) {
      many_.resize(count);
      values_ = many_;
    } else {
      // Only as many as there are: this is done for each record.
      auto* few = reinterpret_cast<std::string_view*>(few_);
      std::uninitialized_default_construct_n(few, count);
      values_ = {few, count};
    }
  }

  bool has(size_t wanted) const { return values_[wanted].data() != nullptr; }
  void set(size_t wanted, const Entry& entry) {
    values_[wanted] = entry.value;
    if (!more_.empty()) std::erase_if(more_, [wanted](const auto& part) { return part.first == wanted; });
    if (more_.size() + entry.more.size() > kMostParts) {
      throw Malformed{"features in more parts than are read", entry.value.data()};
    }
    for (const std::string_view part : entry.more) more_.emplace_back(wanted, part);
  }
  /// Whether any entry has a message of several parts.
  bool has_more() const { return !more_.empty(); }
  std::string_view first_part(size_t wanted) const { return values_[wanted]; }
  /// Calls `function` with each part of the message, if it is there.
  template <typename Function>
  void for_each_part(size_t wanted, Function&& function) const {
    if (!has(wanted)) return;
    function(values_[wanted]);
    for (const auto& [owner, part] : more_) {
      if (owner == wanted) function(part);
    }
  }

 private:
  static constexpr size_t kFew = 32;
  alignas(std::string_view) std::byte few_[kFew * sizeof(std::string_view)];
  std::vector<std::string_view> many_;
  std::span<std::string_view> values_;
  std::vector<std::pair<size_t, std::string_view>> more_;  // further parts, with their entry
};

}  // namespace millrace::wire
