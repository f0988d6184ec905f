#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/ops/arguments.h"
#include "millrace/ops/batch/padding.h"

namespace millrace {

/// What `pack` does with a sequence that is longer than a row.
enum class LongSequences {
  kError,  ///< the element is an error
  kSplit,  ///< it is cut into pieces of a row's length and a shorter last one, each a sequence of its own
};

constexpr auto names_of(const LongSequences*) { return enum_names("LongSequences", "ERROR", "SPLIT"); }

struct PackOptions {
  int64_t look_ahead = 1000;  ///< sequences that may wait for a row in which they fit. Default: 1000
  LongSequences long_sequences = LongSequences::kError;  ///< Default: kError
  /// The vectors to be packed, of one length in each element; other features are left out. Default: none named, all
  std::vector<std::string> features = {};
  std::optional<PaddingValue> value = {};           ///< padding of features of its kind. Default: none, 0
  std::map<std::string, PaddingValue> values = {};  ///< of single features, by name. Default: none
  std::string segment_ids = "segment_ids";          ///< the feature that is added. Default: "segment_ids"
  std::string positions = "positions";              ///< the feature that is added. Default: "positions"

  static constexpr auto fields() {
    using A = PackOptions;
    return describe<A>("PackOptions", field::stream<&A::look_ahead>, field::stream<&A::long_sequences>,
                       field::stream<&A::features>, field::stream<&A::value>, field::stream<&A::values>,
                       field::stream<&A::segment_ids>, field::stream<&A::positions>);
  }
};

/// Puts several short sequences one after the other into rows of `length` values. Two features are added, int32 of the
/// row's length: segment ids, from 1 in each row and 0 where there is padding, and the positions within the sequences.
/// No value is lost or comes twice; an empty sequence leaves no trace.
///
///     rows [1,2,3] [4,5] [6], pack(4, {.look_ahead = 3})
///     // tokens [1,2,3,6] segment_ids [1,1,1,2] positions [0,1,2,0]
///     // tokens [4,5,0,0] segment_ids [1,1,0,0] positions [0,1,0,0]
///
/// A row begins, when as many sequences wait as may, with the one that has waited longest, and goes on with the longest
/// one that still fits until none does. So nothing waits for more rows than there are sequences before it, and rows of
/// 1,024 values are nearly full with a look-ahead of 1,000 (`pack_padding_test`). tf.data has none; seqio calls it
/// packing.
///
/// Errors and notes go out before the row that is open. State: where the oldest sequence that waits stands in the
/// input, and how far after it the first one of each length: at most one number for each length.
class PackOperator final : public StageOperator {
 public:
  PackOperator(const SchemaPtr& input, int64_t length, PackOptions options = {});
  std::string_view name() const override { return "pack"; }
  OperatorTraits traits() const override {
    return {.is_nonblocking = true, .checkpoint_blocker = "", .pads = true, .zero_in_padding = options_.segment_ids};
  }
  /// Of an infinite input infinite, else unknown.
  Cardinality cardinality(std::span<const Cardinality> inputs) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  /// One row, and the queues of what waits, by length.
  int64_t memory_needed(std::span<const Cardinality> inputs) const override;

  /// A feature that is packed.
  struct Feature {
    std::string name;
    size_t column = 0;  // in the input
    DType dtype = DType::kInt64;
    PaddingValue value;
  };

 private:
  int64_t length_;
  PackOptions options_;
  std::vector<Feature> features_;
};

/// What `Dataset::pack` is called with.
struct PackArguments {
  int64_t length = 0;
  PackOptions options = {};

  static constexpr auto fields() {
    using A = PackArguments;
    return describe<A>("pack", field::required<&A::length>, field::inlined<&A::options>);
  }
};

}  // namespace millrace
