#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "millrace/pipeline/pipeline.h"
#include "millrace/pipeline/plan/plan.h"

namespace millrace {

/// How many values of one feature an operator put in that were not in its rows.
struct PaddingCount {
  std::string op = {};       ///< `padded_batch`
  std::string feature = {};  ///< as the operator has it
  int64_t elements = 0;      ///< of the operator, in which it was counted
  int64_t values = 0;        ///< of the feature in them, padding included
  int64_t padded = 0;        ///< of these
  /// 0 to 1.
  double share() const { return values == 0 ? 0 : static_cast<double>(padded) / static_cast<double>(values); }
};

/// What an operator of a plan pads, counted beside the rows' own sizes and not guessed from the values. Each operator
/// that pads has a plan of its own up to there, in which a scalar for each feature carries how many values the row has:
/// a scalar is never padded, whatever order the rows come in. `pack` says itself where there is padding.
class PaddingCounter {
 public:
  /// Those of the plan that pad, sources first: padded_batch, bucket_by_sequence_length, pack, and group_by_window and
  /// window where they make padded batches. What the datasets that functions make pad is not seen.
  [[nodiscard]] static std::vector<PaddingCounter> of(const PlanNodePtr& plan);

  /// The features that may be padded: those that are no scalars. Nothing is counted in them yet.
  [[nodiscard]] const std::vector<PaddingCount>& features() const { return features_; }
  /// Reads the operator's first elements, until they have this many rows or there are no more, in their order. Errors
  /// are left out. `on_element`: null, or called with the elements read so far. Throws what a pipeline throws.
  [[nodiscard]] std::vector<PaddingCount> count(int64_t rows, StartOptions options,
                                                const std::function<void(int64_t elements)>& on_element) const;

 private:
  PlanNodePtr plan_;  // up to the operator, with the sizes of rows
  std::vector<PaddingCount> features_;
  std::vector<std::string> sizes_;  // of `features_`: where the rows' sizes are
  std::string zero_in_padding_;     // of pack: 0 where there is padding; then there are no sizes
};

}  // namespace millrace
