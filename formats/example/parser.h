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
/// What valid protobuf means is what comes out. Where TensorFlow's own parser gives other values than protobuf's for
/// the same bytes (a feature with two kinds or the same kind twice, a packed list followed by more of the list) the
/// record is refused with `parse`, since one of the two readers would be wrong. Unknown fields and groups are skipped;
/// of equal keys the last counts. Formats: protobuf encoding (https://protobuf.dev/programming-guides/encoding),
/// tensorflow/core/example.
///
/// Immutable; any number of threads.
class ExampleParser {
 public:
  /// Throws `kInvalidArgument` (see FeatureDescription::check), also for two features of one key.
  explicit ExampleParser(std::vector<FeatureDescription> features);

  const std::vector<FeatureDescription>& features() const { return features_; }

  /// Parses one record: `destinations[i]` has room for the values of feature i (std::string_views for bytes, which
  /// point into `record` or into this parser's defaults). Returns the error, if there is one: `parse` with feature and
  /// byte, `missing_feature`, or `wrong_shape` with the counts; the destinations then hold nothing of meaning.
  [[nodiscard]] std::optional<Error> parse(std::string_view record, std::span<std::byte* const> destinations) const;

 private:
  void write_default(const FeatureDescription& feature, std::byte* destination) const;

  std::vector<FeatureDescription> features_;
  std::vector<int64_t> counts_;  // values of each feature
};

}  // namespace millrace
