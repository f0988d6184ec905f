#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/trainer/parameters.h"

namespace millrace {

/// A run of floats that belong to one parameter and lie in one bucket.
struct UpdateRange {
  int parameter = 0;
  int64_t begin = 0;  ///< first float in the flat buffers
  int64_t end = 0;    ///< one past the last
};

/// The ranges of a bucket, in the order of the layout. Gaps belong to none.
std::vector<UpdateRange> ranges_of(const ParameterLayout& layout, const Bucket& bucket);

/// What all ranges of one update share.
struct UpdateStep {
  int64_t number = 1;  ///< t of the formulas: 1 for the first update
  double learning_rate = 0;
  float gradient_scale = 1;  ///< the gradient is this times what the buffer holds: 1 / weight, clipping
};

/// The learning rate of a group of parameters.
struct GroupRate {
  std::string parameters = {};  ///< what the group calls them
  double learning_rate = 0;
};

/// Flat buffers in the layout of the parameters.
struct UpdateBuffers {
  float* weights = nullptr;
  float* gradients = nullptr;          ///< may be overwritten by a layer-wise rule
  std::span<float* const> slots = {};  ///< one per slot name, 0 before the first update
};

/// Sums of squares over (a part of) one parameter, accumulated in float64.
struct LayerSquares {
  double weights = 0;
  double direction = 0;
};

/// A rule that changes weights. It holds its options and the slots' names; the slots' values are the trainer's, so all
/// members are const and disjoint ranges may be updated at once from any threads.
///
/// Scalars (bias corrections, ...) are computed in float64 and rounded once; array arithmetic is float32. A range's
/// result depends on its own floats only, so it is the same however the buffer is cut.
///
/// A checkpoint holds the slots, the update count and `describe()`.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// The rule and its options in one line; two optimizers with the same line act the same.
  virtual std::string describe() const = 0;
  /// One flat buffer is needed for each.
  virtual std::span<const std::string_view> slot_names() const = 0;

  /// The rates of groups of parameters that have others than `step.learning_rate`; for reports, asked before each
  /// update. Default: none
  virtual std::vector<GroupRate> learning_rates(const UpdateStep& /*step*/) const { return {}; }

  /// Rules whose update of a weight needs nothing but that weight's floats: one pass.
  virtual void update(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers) const = 0;

  /// True for rules that scale by norms over a whole parameter (LAMB). The trainer then calls `direction` on all
  /// ranges, adds up what it returns per parameter in order of the ranges, and calls `apply` instead of `update`.
  virtual bool layerwise() const { return false; }
  /// Updates the slots and writes the direction over the gradients.
  virtual LayerSquares direction(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers) const;
  /// Moves the weights along the direction; `squares` are those of the whole parameter.
  virtual void apply(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers,
                     const LayerSquares& squares) const;
};

/// What is excluded from decay in most models; one without such parameters takes it too.
inline constexpr std::string_view kUsualExclusion = "LayerNorm|layer_norm|bias";

/// Which parameters weight decay applies to: those whose name does not contain a match of the regular expression
/// `exclude` (RE2; empty excludes none). Returns, by parameter id, `decay` or 0. Throws `kInvalidArgument` for a
/// pattern that is no regular expression, or matches nothing and is not `kUsualExclusion`, and for a decay that is
/// negative or not finite.
std::vector<double> weight_decays(const ParameterLayout& layout, double decay, const std::string& exclude);

/// How a gradient whose norm is too large is scaled down.
enum class ClipForm {
  kTf,     ///< c / max(n, c)
  kTorch,  ///< min(1, c / (n + 1e-6))
};

/// The factor for a gradient of norm `norm` over all parameters, and the limit `clip_norm` (> 0).
double clip_scale(double norm, double clip_norm, ClipForm form);

}  // namespace millrace
