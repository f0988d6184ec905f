#pragma once

#include <string>
#include <vector>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

struct MixupOptions {
  std::vector<std::string> features = {};  ///< float32 features that are mixed: images and their labels. No default
  double alpha = 0.2;                      ///< of the Beta distribution; above 0. Default: 0.2
  double probability = 1;                  ///< that a batch is mixed at all. Default: 1
  uint64_t seed = 0;                       ///< another seed, other mixtures. Default: 0

  static constexpr auto fields() {
    using A = MixupOptions;
    return describe<A>("MixupOptions", field::required<&A::features>, field::stream<&A::alpha>,
                       field::stream<&A::probability>, field::stream<&A::seed>);
  }
};

/// Mixes the rows of a batch with each other (Zhang et al., "mixup: beyond empirical risk minimization", 2018): row i
/// becomes lambda * row i + (1 - lambda) * row p(i), in all features alike, with a permutation p of the rows and a
/// lambda from Beta(alpha, alpha), one for the batch, as in the authors' code.
///
///     {.features = {"image", "label"}}, lambda 0.75, p = 1 0
///     image=[[8,0],[0,4]] label=[[1,0],[0,1]]  ->  image=[[6,1],[2,3]] label=[[0.75,0.25],[0.25,0.75]]
///
/// It stands after `batch`; labels are probabilities (one-hot), no class numbers. What is drawn is a pure function of
/// seed, epoch and the number of the batch's first row. A batch in which a feature has not one entry for each row
/// becomes an error.
class MixupOperator final : public MapOperator {
 public:
  /// `occurrence`: how many of these stand before it. Throws `kInvalidArgument` for features that are no float32
  /// batches, named twice or none, and for an alpha or a probability out of range.
  MixupOperator(const SchemaPtr& input, MixupOptions options, uint64_t occurrence = 0);
  std::string_view name() const override { return "mixup"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true}; }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  MixupOptions options_;
  std::vector<size_t> columns_;
  uint64_t occurrence_;
};

/// What `Dataset::mixup` is called with.
struct MixupArguments {
  MixupOptions options = {};

  static constexpr auto fields() { return describe<MixupArguments>("mixup", field::inlined<&MixupArguments::options>); }
};

}  // namespace millrace
