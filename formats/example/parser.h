#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/error.h"
#include "formats/example/feature_description.h"

namespace millrace {

/// Parses serialized `tensorflow.Example` messages in one pass, straight into the places where the values are wanted.
///
/// What comes out is what the bytes mean as protobuf: unknown fields and groups are skipped, parts of one list are
/// joined, of equal keys and of the kinds of a feature the last counts; the whole record must be valid, also what
/// nobody asks for. Where TensorFlow's own parser silently takes another meaning the record is refused with `parse`, or
/// with `wrong_shape` where protobuf's values do not fit: one of the two readers would be wrong. Formats: protobuf
/// encoding (https://protobuf.dev/programming-guides/encoding), tensorflow/core/example.
///
/// Immutable; any number of threads.
class ExampleParser {
 public:
  /// Throws `kInvalidArgument` (see FeatureDescription::check), also for no features or two of one key.
  explicit ExampleParser(std::vector<FeatureDescription> features);

  const std::vector<FeatureDescription>& features() const { return features_; }

  /// Parses one record: `destinations[i]` has room for the values of feature i (std::string_views for bytes, which
  /// point into `record` or into this parser's defaults). Returns the error, if there is one: `parse` with feature and
  /// byte, `missing_feature`, or `wrong_shape` with the counts; the destinations then hold nothing of meaning.
  [[nodiscard]] std::optional<Error> parse(std::string_view record, std::span<std::byte* const> destinations) const;

 private:
  // Sets `overlong` when a tag at the top has more bytes than it needs; such fields count only `with_overlong`.
  std::optional<Error> parse_fields(std::string_view record, std::span<std::byte* const> destinations,
                                    bool with_overlong, bool& overlong) const;
  // The feature of this key, or how many features there are; looks at `expected` first.
  size_t find(std::string_view key, size_t expected) const;
  void write_default(const FeatureDescription& feature, std::byte* destination) const;

  std::vector<FeatureDescription> features_;
  std::vector<int64_t> counts_;  // values of each feature
};

}  // namespace millrace
