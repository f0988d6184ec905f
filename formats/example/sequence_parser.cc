#include "millrace/formats/example/sequence_parser.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/formats/example/default_values.h"
#include "millrace/formats/example/feature_columns.h"
#include "millrace/formats/example/map_entries.h"
#include "millrace/formats/example/record_ahead.h"
#include "millrace/formats/example/value_list.h"
#include "millrace/formats/example/wire.h"

namespace millrace {
namespace {

using wire::Entry;
using wire::kDelimited;
using wire::Malformed;
using wire::tag;
using wire::ValueList;
using wire::WantedEntries;
using wire::WantedLists;
using wire::Wire;

// How deep each message of a SequenceExample is.
constexpr int kSequenceExampleDepth = 0;
constexpr int kMapDepth = 1;
constexpr int kEntryDepth = 2;
constexpr int kValueDepth = 3;
constexpr int kStepDepth = 4;

constexpr uint32_t kContext = tag(1, kDelimited);
constexpr uint32_t kFeatureLists = tag(2, kDelimited);

// Calls `function` with each step of a FeatureList message, or of a further part of one.
template <typename Function>
void for_each_step(std::string_view feature_list, Function&& function) {
  Wire list(feature_list, kValueDepth);
  while (!list.done()) {
    const uint32_t field_tag = list.read_tag();
    if (field_tag == tag(1, kDelimited)) {
      ValueList step;
      wire::read_feature(list.delimited(), kStepDepth, step);
      function(std::move(step));
    } else {
      list.skip(field_tag);
    }
  }
}

/// One of the two maps of a record.
struct Map {
  const WantedLists& wanted;
  bool has_steps;
  WantedEntries entries{wanted.size()};

  ValueList feature(size_t list) const {
    ValueList values;
    entries.for_each_part(list, [&](std::string_view part) { wire::read_feature(part, kValueDepth, values); });
    return values;
  }
  // A step of two bytes takes more than fifty here.
  CountedVector<ValueList> steps(size_t list, BufferPool& pool) const {
    CountedVector<ValueList> all{CountedAllocator<ValueList>(pool)};
    size_t parts = 0;
    entries.for_each_part(list, [&](std::string_view part) {
      for_each_step(part, [&](ValueList step) {
        parts += step.more.size();
        if (parts > wire::kMostParts) throw Malformed{"lists in more parts than are read", step.piece.data()};
        all.push_back(std::move(step));
      });
    });
    return all;
  }
  // A value that nobody asks for, or that a later one replaces.
  void check(std::string_view value) const {
    if (has_steps) {
      for_each_step(value, [](const ValueList& step) { wire::check_values(step); });
    } else {
      ValueList list;
      wire::read_feature(value, kValueDepth, list);
      wire::check_values(list);
    }
  }
  // Reads the message of a map; whether something in it is asked for.
  bool read(std::string_view message) {
    bool has_wanted = false;
    size_t expected = 0;
    Wire map(message, kMapDepth);
    while (!map.done()) {
      const uint32_t map_tag = map.read_tag();
      if (map_tag != tag(1, kDelimited)) {
        map.skip(map_tag);
        continue;
      }
      const Entry entry = wire::read_entry(map.delimited(), kEntryDepth);
      const size_t index = wanted.find(entry.key, expected);
      if (index == wanted.size()) {
        wire::check_key(entry.key);
        check(entry.value);
        for (const std::string_view part : entry.more) check(part);
        continue;
      }
      has_wanted = true;
      expected = index + 1;
      entries.for_each_part(index, [this](std::string_view part) { check(part); });
      entries.set(index, entry);
    }
    return has_wanted;
  }
};

[[noreturn]] void refuse(const FeatureDescription& feature, std::string_view why) {
  throw ErrorException(ErrorCode::kInvalidArgument,
                       fmt::format("parse_sequence_example: feature '{}': {}", feature.key, why));
}

}  // namespace

SequenceExampleParser::SequenceExampleParser(std::vector<FeatureDescription> context,
                                             std::vector<FeatureDescription> feature_lists)
    : context_(std::move(context)),
      feature_lists_(std::move(feature_lists)),
      wanted_context_(context_, "parse_sequence_example: the context"),
      wanted_lists_(feature_lists_, "parse_sequence_example: the feature lists") {
  if (context_.empty() && feature_lists_.empty()) {
    throw ErrorException(ErrorCode::kInvalidArgument, "parse_sequence_example: no features are asked for");
  }
  for (const FeatureDescription& feature : context_) {
    feature.check("parse_sequence_example");
    if (feature.kind == FeatureDescription::kFixedLenSequence) refuse(feature, "a sequence is a feature list");
    if (feature.kind == FeatureDescription::kSparse) refuse(feature, "sparse features are for Examples");
    for (FeatureSpec& column : feature.columns()) columns_.push_back(std::move(column));
  }
  for (const FeatureDescription& feature : feature_lists_) {
    feature.check("parse_sequence_example");
    if (feature.kind == FeatureDescription::kFixedLen) refuse(feature, "a feature list is a fixed_len_sequence");
    if (feature.kind == FeatureDescription::kSparse) refuse(feature, "sparse features are for Examples");
    if (!std::holds_alternative<std::monostate>(feature.default_values)) {
      refuse(feature, "a feature list has no default; allow_missing makes it empty, padded_batch pads with a value");
    }
    for (FeatureSpec& column : feature.columns_of_steps()) columns_.push_back(std::move(column));
  }
}

std::optional<Error> SequenceExampleParser::parse(std::string_view record, BufferPool& pool,
                                                  std::span<std::byte* const> destinations,
                                                  std::span<ColumnBuilder* const> builders,
                                                  std::string_view next) const {
  RecordAhead(next, 1).ask_for_part();
  Overlong overlong;
  std::optional<Error> error = parse_fields(record, destinations, builders, overlong);
  // TensorFlow takes an overlong tag at the top for an unknown field, and so gets another answer.
  if (error || !overlong.has_wanted) return error;
  if (!parses_without_overlong(record, pool)) return error;
  return Error{.code = ErrorCode::kParse,
               .message = "an overlong field tag, which TensorFlow takes for an unknown field"};
}

bool SequenceExampleParser::parses_without_overlong(std::string_view record, BufferPool& pool) const {
  std::vector<Column> fixed;
  std::vector<ColumnBuilder> builders;
  fixed.reserve(columns_.size());
  builders.reserve(columns_.size());
  std::vector<std::byte*> destinations;
  std::vector<ColumnBuilder*> builder_of;
  for (const FeatureSpec& column : columns_) {
    const bool is_fixed = column.has_fixed_shape();
    destinations.push_back(
        is_fixed ? fixed.emplace_back(Column::fixed(pool, column.dtype, column.shape, 1)).mutable_data(0) : nullptr);
    builder_of.push_back(is_fixed ? nullptr : &builders.emplace_back(pool, column));
  }
  Overlong left_out{.is_read = false};
  return !parse_fields(record, destinations, builder_of, left_out);
}

std::optional<Error> SequenceExampleParser::parse_fields(std::string_view record,
                                                         std::span<std::byte* const> destinations,
                                                         std::span<ColumnBuilder* const> builders,
                                                         Overlong& overlong) const {
  const std::string* key = nullptr;  // of the feature being read
  try {
    // Of equal keys the last counts, so values are read when the message has been walked.
    Map context{wanted_context_, /*has_steps=*/false};
    Map lists{wanted_lists_, /*has_steps=*/true};
    Wire example(record, kSequenceExampleDepth);
    while (!example.done()) {
      const char* begin = example.at();
      const uint32_t field_tag = example.read_tag();
      if (field_tag != kContext && field_tag != kFeatureLists) {
        example.skip(field_tag);
        continue;
      }
      const bool is_overlong = example.at() - begin > 1;
      const std::string_view message = example.delimited();
      if (is_overlong && !overlong.is_read) continue;
      const bool has_wanted = (field_tag == kContext ? context : lists).read(message);
      overlong.has_wanted = overlong.has_wanted || (is_overlong && has_wanted);
    }

    size_t column = 0;
    bool after_packed = false;  // an error to TensorFlow, so protobuf's values count
    for (size_t i = 0; i < context_.size(); ++i, ++column) {
      const FeatureDescription& feature = context_[i];
      key = &feature.key;
      std::vector<ValueList> of_feature;
      for (const size_t list : wanted_context_.of_feature(i)) of_feature.push_back(context.feature(list));
      if (feature.kind != FeatureDescription::kFixedLen) {
        wire::append_feature(feature, of_feature, builders.subspan(column), after_packed);
        continue;
      }
      if (!of_feature[0].kind) {
        // As TensorFlow has it, one without values is never missed here, unlike in an Example.
        if (std::holds_alternative<std::monostate>(feature.default_values) && num_values(feature.shape) > 0) {
          return Error{.code = ErrorCode::kMissingFeature,
                       .message = fmt::format("feature '{}' is not in the context and has no default", feature.key)};
        }
        wire::write_default(feature, destinations[column]);
        continue;
      }
      wire::check_kind(of_feature[0], feature.stored);
      const int64_t count = num_values(feature.shape);
      const int64_t found = wire::read_values(of_feature[0], feature.dtype, count, destinations[column]).count;
      if (found != count) {
        throw Malformed{fmt::format("has {} values, shape {} needs {}", found, to_string(feature.shape), count),
                        nullptr, ErrorCode::kWrongShape, true};
      }
    }
    for (size_t i = 0; i < feature_lists_.size(); ++i, ++column) {
      const FeatureDescription& feature = feature_lists_[i];
      key = &feature.key;
      const std::vector<size_t>& of_feature = wanted_lists_.of_feature(i);
      if (feature.kind == FeatureDescription::kFixedLenSequence && !feature.allow_missing &&
          !lists.entries.has(of_feature[0])) {
        return Error{.code = ErrorCode::kMissingFeature,
                     .message = fmt::format("feature list '{}' is not in the record", feature.key)};
      }
      std::vector<CountedVector<ValueList>> steps;
      steps.reserve(of_feature.size());
      for (const size_t list : of_feature) steps.push_back(lists.steps(list, builders[column]->pool()));
      wire::append_steps(feature, steps, *builders[column]);
    }
  } catch (const Malformed& malformed) {
    return malformed.to_error(record, key);
  }
  return std::nullopt;
}

}  // namespace millrace
