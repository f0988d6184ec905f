#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/columnar/column_builder.h"
#include "millrace/formats/error.h"
#include "millrace/formats/example/feature_description.h"
#include "millrace/formats/example/wanted_lists.h"

namespace millrace {

namespace wire {
struct ValueList;
class WantedEntries;
}  // namespace wire

/// Parses serialized `tensorflow.Example` messages in one pass, straight into the places where the values are wanted.
///
/// What comes out is what the bytes mean as protobuf: unknown fields and groups are skipped, parts of one list are
/// joined, of equal keys and of the kinds of a feature the last counts; the whole record must be valid, also what
/// nobody asks for. Where TensorFlow's own parser takes the record and finds other values in it, the record is refused
/// with `parse`, or with `wrong_shape` where protobuf's values do not fit: one of the two readers would be wrong.
/// Formats: protobuf encoding (https://protobuf.dev/programming-guides/encoding), tensorflow/core/example.
///
/// Immutable; any number of threads.
class ExampleParser {
 public:
  /// Throws `kInvalidArgument` (see FeatureDescription::check), also for no features, for a sequence that must not be
  /// missing, and for a key that two features ask for, unless as lists of one type whose length may vary.
  explicit ExampleParser(std::vector<FeatureDescription> features);

  const std::vector<FeatureDescription>& features() const { return features_; }
  /// The columns of one record, in the order of the features.
  const std::vector<FeatureSpec>& columns() const { return columns_; }

  /// Parses one record. By column: where the shape is fixed, `destinations[c]` has room for the values
  /// (std::string_views for bytes, which point into `record` or into this parser's defaults); elsewhere `builders[c]`
  /// is given one element more. Returns the error, if there is one: `parse` with feature and byte, `missing_feature`,
  /// or `wrong_shape` with the counts; the destinations then hold nothing of meaning, and of the builders some have the
  /// element already. `pool`: for what is read beside the values, of which a record may have any amount. `next`: a
  /// record that will be parsed soon after this one, or nothing; its memory is asked for.
  [[nodiscard]] std::optional<Error> parse(std::string_view record, BufferPool& pool,
                                           std::span<std::byte* const> destinations,
                                           std::span<ColumnBuilder* const> builders = {},
                                           std::string_view next = {}) const;

  /// For those who must know the number of values before they have a place for them. Finds the packed list of each
  /// feature in a plain record: its list is one packed run, of var_len it may also be empty, and it may be missing
  /// where parse allows it (of a key that occurs twice the last counts). False for any other record, also for one that
  /// is not valid, as far as was looked; `parse` says then what is in it. `next`: as in parse. Only where
  /// `packs_lists`.
  [[nodiscard]] bool find_packed(std::string_view record, std::span<std::string_view> lists,
                                 std::string_view next = {}) const;
  /// Whether every feature is a list of numbers of its own (fixed_len, var_len), as `find_packed` needs it.
  bool packs_lists() const;
  /// Values in what it found of feature `i`, or of its default.
  int64_t count_packed(size_t i, std::string_view list) const;
  /// Reads them, all `count`, to where there is room for `capacity`; what is after them there may be written to.
  /// False where they are not valid.
  [[nodiscard]] bool read_packed(size_t i, std::string_view list, int64_t count, int64_t capacity,
                                 std::byte* destination) const;

 private:
  // What was found on the walk through a record.
  struct Walk {
    const std::string* key = nullptr;  // of the feature being read
    bool readers_may_differ = false;   // something occurs that TensorFlow's reader may treat otherwise
  };
  struct Place {
    bool fixed_len;
    size_t list;    // of its values in wanted_
    size_t column;  // the first one
    int64_t count;  // values, of a feature of fixed length
  };

  // Finds the entries that are asked for. Throws `Malformed`.
  void find_entries(std::string_view record, wire::WantedEntries& entries, Walk& walk) const;
  // Feature i, which is not of fixed length; `list`: of its values.
  void append_varying(size_t i, const wire::ValueList& list, const wire::WantedEntries& entries,
                      std::span<ColumnBuilder* const> builders, bool& readers_may_differ) const;

  std::vector<FeatureDescription> features_;
  std::vector<FeatureSpec> columns_;
  wire::WantedLists wanted_;
  std::vector<Place> places_;  // of each feature
};

}  // namespace millrace
