#pragma once

#include <string>
#include <vector>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

struct CutmixOptions {
  std::string image = "image";           ///< numbers [rows, height, width, …]. Default: image
  std::vector<std::string> labels = {};  ///< float32 features that are mixed by the area. Default: none
  double alpha = 1;                      ///< of the Beta distribution; above 0. Default: 1
  double probability = 1;                ///< that a batch is mixed at all. Default: 1
  uint64_t seed = 0;                     ///< another seed, other boxes. Default: 0

  static constexpr auto fields() {
    using A = CutmixOptions;
    return describe<A>("CutmixOptions", field::stream<&A::image>, field::stream<&A::labels>, field::stream<&A::alpha>,
                       field::stream<&A::probability>, field::stream<&A::seed>);
  }
};

/// Pastes a box of another image of the batch into each (Yun et al., "CutMix: regularization strategy to train strong
/// classifiers with localizable features", 2019): its centre is uniform, its area 1 - lambda of the image's before it
/// is cut at the borders, with lambda from Beta(alpha, alpha); labels become their mixture by the areas that are seen.
/// Partners are a permutation of the rows; box and lambda are one for the batch, as in the authors' code.
///
///     two images [2,2] of 1s and 2s, a box of the right column
///     image=[[[1,1],[1,1]],[[2,2],[2,2]]] label=[[1,0],[0,1]]
///       ->  image=[[[1,2],[1,2]],[[2,1],[2,1]]] label=[[0.5,0.5],[0.5,0.5]]
///
/// It stands after `batch`; labels are probabilities (one-hot). What is drawn is a pure function of seed, epoch and
/// the number of the batch's first row. A batch in which a feature has not one entry for each row becomes an error.
class CutmixOperator final : public MapOperator {
 public:
  /// `occurrence`: how many of these stand before it. Throws `kInvalidArgument` for an image that has no height and
  /// width or is bytes, labels that are no float32 batches, and for an alpha or a probability out of range.
  CutmixOperator(const SchemaPtr& input, CutmixOptions options, uint64_t occurrence = 0);
  std::string_view name() const override { return "cutmix"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true}; }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  CutmixOptions options_;
  size_t image_;
  std::vector<size_t> labels_;
  uint64_t occurrence_;
};

/// What `Dataset::cutmix` is called with.
struct CutmixArguments {
  CutmixOptions options = {};

  static constexpr auto fields() {
    return describe<CutmixArguments>("cutmix", field::inlined<&CutmixArguments::options>);
  }
};

}  // namespace millrace
