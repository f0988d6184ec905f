#include "millrace/formats/example/parser.h"

#include <algorithm>
#include <cassert>

#include <fmt/format.h>

#include "millrace/formats/example/default_values.h"
#include "millrace/formats/example/feature_columns.h"
#include "millrace/formats/example/map_entries.h"
#include "millrace/formats/example/record_ahead.h"
#include "millrace/formats/example/tensorflow_reading.h"
#include "millrace/formats/example/value_list.h"
#include "millrace/formats/example/wire.h"

namespace millrace {
namespace {

using wire::Entry;
using wire::kDelimited;
using wire::kEntryDepth;
using wire::kExampleDepth;
using wire::kFeatureDepth;
using wire::kFeaturesDepth;
using wire::list_of;
using wire::Malformed;
using wire::tag;
using wire::ValueList;
using wire::WantedEntries;
using wire::Wire;

// `wanted` must be there. Mostly it is one message.
inline void read_list(const WantedEntries& entries, size_t wanted, ValueList& list) {
  if (!entries.has_more()) return wire::read_feature(entries.first_part(wanted), kFeatureDepth, list);
  entries.for_each_part(wanted, [&list](std::string_view part) { wire::read_feature(part, kFeatureDepth, list); });
}

ValueList list_of(const WantedEntries& entries, size_t wanted) {
  ValueList list;
  if (entries.has(wanted)) read_list(entries, wanted, list);
  return list;
}

void expect_count(const FeatureDescription& feature, int64_t count, int64_t found) {
  if (found == count) return;
  throw Malformed{fmt::format("has {} values, shape {} needs {}", found, to_string(feature.shape), count), nullptr,
                  ErrorCode::kWrongShape, true};
}

}  // namespace

ExampleParser::ExampleParser(std::vector<FeatureDescription> features)
    : features_(std::move(features)), wanted_(features_, "parse_example") {
  if (features_.empty()) throw ErrorException(ErrorCode::kInvalidArgument, "parse_example: no features are asked for");
  for (const FeatureDescription& feature : features_) {
    feature.check("parse_example");
    if (feature.kind == FeatureDescription::kFixedLenSequence && !feature.allow_missing) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("parse_example: feature '{}': a sequence in an Example may be missing, as an "
                                       "empty one is; say {{.allow_missing = true}}",
                                       feature.key));
    }
    const bool fixed_len = feature.kind == FeatureDescription::kFixedLen;
    places_.push_back({.fixed_len = fixed_len,
                       .list = wanted_.of_feature(places_.size())[0],
                       .column = columns_.size(),
                       .count = fixed_len ? num_values(feature.shape) : 0});
    for (FeatureSpec& column : feature.columns()) columns_.push_back(std::move(column));
  }
}

void ExampleParser::append_varying(size_t i, const ValueList& list, const WantedEntries& entries,
                                   std::span<ColumnBuilder* const> builders, bool& readers_may_differ) const {
  const std::vector<size_t>& lists = wanted_.of_feature(i);
  if (lists.size() == 1) return wire::append_feature(features_[i], {&list, 1}, builders, readers_may_differ);
  std::vector<ValueList> all{list};
  for (size_t l = 1; l < lists.size(); ++l) {
    all.push_back(list_of(entries, lists[l]));
    readers_may_differ |= all.back().several;
  }
  wire::append_feature(features_[i], all, builders, readers_may_differ);
}

// Inlined: what parsing costs is mostly the walk.
[[gnu::always_inline]] inline void ExampleParser::find_entries(std::string_view record, WantedEntries& entries,
                                                               Walk& walk) const {
  size_t expected = 0;  // writers keep one order: the next key is mostly the next feature
  Wire example(record, kExampleDepth);
  while (!example.done()) {
    const char* begin = example.at();
    const uint32_t example_tag = example.read_tag();
    if (example_tag != tag(1, kDelimited)) {
      example.skip(example_tag);
      continue;
    }
    walk.readers_may_differ |= example.at() - begin > 1;  // a tag of more bytes than it needs
    Wire features(example.delimited(), kFeaturesDepth);
    while (!features.done()) {
      const uint32_t features_tag = features.read_tag();
      if (features_tag != tag(1, kDelimited)) {
        features.skip(features_tag);
        continue;
      }
      const Entry entry = wire::read_entry(features.delimited(), kEntryDepth);
      const size_t index = wanted_.find(entry.key, expected);
      if (index == wanted_.size()) {
        wire::check_key(entry.key);
        wire::check_values(list_of(entry));
        continue;
      }
      expected = index + 1;
      walk.readers_may_differ |= !entry.more.empty();
      if (entries.has(index)) {
        // An entry without a list is no feature of fixed length: the one before stays, as in TensorFlow.
        if (wanted_[index].fixed_len && !list_of(entry).kind) continue;
        walk.key = &wanted_[index].key;
        wire::check_values(list_of(entries, index));
        walk.key = nullptr;
      }
      entries.set(index, entry);
    }
  }
}

std::optional<Error> ExampleParser::parse(std::string_view record, BufferPool& pool,
                                          std::span<std::byte* const> destinations,
                                          std::span<ColumnBuilder* const> builders, std::string_view next) const {
  // Of equal keys the last counts, so values are read when the message has been walked.
  WantedEntries entries(wanted_.size());
  Walk walk;
  try {
    find_entries(record, entries, walk);
    RecordAhead ahead(next, features_.size());
    for (size_t i = 0; i < features_.size(); ++i) {
      ahead.ask_for_part();
      const FeatureDescription& feature = features_[i];
      const Place& place = places_[i];
      walk.key = &feature.key;
      // Mostly a feature is one packed run; what else it may be takes longer to find out.
      if (place.fixed_len && feature.stored != DType::kBytes && entries.has(place.list) && !entries.has_more()) {
        const auto run = wire::packed_run(entries.first_part(place.list), feature.stored);
        if (run && !run->empty()) {
          expect_count(feature, place.count,
                       wire::read_packed(*run, feature.dtype, place.count, destinations[place.column]));
          continue;
        }
      }
      ValueList list;
      if (entries.has(place.list)) read_list(entries, place.list, list);
      walk.readers_may_differ |= list.several;
      if (!place.fixed_len) {
        append_varying(i, list, entries, builders.subspan(place.column), walk.readers_may_differ);
        continue;
      }
      std::byte* const destination = destinations[place.column];
      if (!list.kind) {
        if (std::holds_alternative<std::monostate>(feature.default_values)) {
          return Error{.code = ErrorCode::kMissingFeature,
                       .message = fmt::format("feature '{}' is not in the record and has no default", feature.key)};
        }
        wire::write_default(feature, destination);
        continue;
      }
      if (*list.kind != feature.stored) wire::check_kind(list, feature.stored);
      // Numbers after a packed run make another count than TensorFlow's, so one of the two is wrong.
      expect_count(feature, place.count, wire::read_values(list, feature.dtype, place.count, destination).count);
    }
    walk.key = nullptr;
    size_t different = 0;
    if (walk.readers_may_differ &&
        wire::tensorflow_reads_otherwise(record, features_, wanted_, entries, pool, different)) {
      walk.key = &wanted_[different].key;
      const std::string_view place = entries.has(different) ? entries.first_part(different) : record;
      throw Malformed{"TensorFlow's reader and protobuf's find different values", place.data()};
    }
  } catch (const Malformed& malformed) {
    return malformed.to_error(record, walk.key);
  }
  return std::nullopt;
}

bool ExampleParser::packs_lists() const {
  return std::all_of(features_.begin(), features_.end(), [](const FeatureDescription& feature) {
    const bool own_list = feature.kind == FeatureDescription::kFixedLen || feature.kind == FeatureDescription::kVarLen;
    return own_list && feature.stored != DType::kBytes;
  });
}

bool ExampleParser::find_packed(std::string_view record, std::span<std::string_view> lists,
                                std::string_view next) const {
  assert(packs_lists());
  WantedEntries entries(wanted_.size());
  Walk walk;
  try {
    find_entries(record, entries, walk);
    if (walk.readers_may_differ) return false;
    RecordAhead ahead(next, features_.size());
    for (size_t i = 0; i < features_.size(); ++i) {
      ahead.ask_for_part();
      const Place& place = places_[i];
      if (!entries.has(place.list)) {
        const bool has_default = !std::holds_alternative<std::monostate>(features_[i].default_values);
        if (place.fixed_len && !has_default) return false;
        lists[i] = {};
        continue;
      }
      const auto run = wire::packed_run(entries.first_part(place.list), features_[i].stored);
      if (!run || (place.fixed_len && run->empty())) return false;
      lists[i] = *run;
    }
  } catch (const Malformed&) {
    return false;
  }
  return true;
}

int64_t ExampleParser::count_packed(size_t i, std::string_view list) const {
  if (list.empty()) return places_[i].count;
  return wire::count_packed(list, features_[i].stored);
}

bool ExampleParser::read_packed(size_t i, std::string_view list, int64_t count, int64_t capacity,
                                std::byte* destination) const {
  if (list.empty()) {
    // Only a feature with a default has values then.
    if (places_[i].fixed_len) wire::write_default(features_[i], destination);
    return count == places_[i].count;
  }
  try {
    return wire::read_packed(list, features_[i].dtype, capacity, destination) == count;
  } catch (const Malformed&) {
    return false;
  }
}

}  // namespace millrace
