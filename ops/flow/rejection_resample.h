#pragma once

#include <string>
#include <vector>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

struct RejectionResampleOptions {
  std::string feature = {};  ///< the class of an element: int32 or int64 [], from 0. No default
  std::vector<double> target_distribution =
      {};  ///< how often each class is to come out, against the others. No default
  std::vector<double> initial_distribution = {};  ///< how often it comes in. Default: empty, counted on the way
  uint64_t seed = 0;                              ///< of what is rejected. Default: 0

  static constexpr auto fields() {
    using A = RejectionResampleOptions;
    return describe<A>("RejectionResampleOptions", field::required<&A::feature>,
                       field::required<&A::target_distribution>, field::stream<&A::initial_distribution>,
                       field::stream<&A::seed>);
  }
};

/// Drops elements at random so that the classes of those that stay are distributed as asked for: the most wanted class
/// (by target over initial share) stays whole, each other one with the chance that makes up for it.
///
///     classes 0 0 0 1 0 0 1 0, target {1, 1}, initial {3, 1}, seed 9   ->   0 1 0 1
///
/// Without an initial distribution the classes are counted as they come, from 10 of each on, the element at hand among
/// them: tf.data's smoothing. Then the first elements come by a rough estimate.
///
/// tf.data's rejection_resample gives the same distribution in other elements: it mixes the dropped ones with a second
/// pass over the whole input, which may give an element twice, draws one after the other, estimates once in 32
/// elements, and puts the class beside the element. Here every element comes at most once, in order, and whether it
/// stays is a pure function of seed, epoch, its number and the counts.
///
/// An element whose class is none of those becomes an error. Errors pass. State: the number of the next element, and
/// the counts.
class RejectionResampleOperator final : public StageOperator {
 public:
  /// `occurrence`: how many of these stand before it. Throws `kInvalidArgument` for a feature that is no whole number,
  /// for distributions of unlike sizes or with numbers that are negative, not finite or all 0, and for a class that is
  /// wanted and never comes.
  RejectionResampleOperator(const SchemaPtr& input, RejectionResampleOptions options, uint64_t occurrence = 0);
  std::string_view name() const override { return "rejection_resample"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .checkpoint_blocker = ""}; }
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::unknown(); }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;

 private:
  RejectionResampleOptions options_;
  size_t column_;
  uint64_t occurrence_;
};

/// What `Dataset::rejection_resample` is called with.
struct RejectionResampleArguments {
  RejectionResampleOptions options = {};

  static constexpr auto fields() {
    using A = RejectionResampleArguments;
    return describe<A>("rejection_resample", field::inlined<&A::options>);
  }
};

}  // namespace millrace
