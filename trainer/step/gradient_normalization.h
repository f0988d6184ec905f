#pragma once

#include <cstdint>

namespace millrace {

/// What the sum of gradients is divided by. They differ where replicas have unlike weights (labels, rows), and in what
/// an empty replica does; reported losses are the global mean in every mode.
enum class Normalization {
  kGlobalMean,          ///< all gradients by all weight: exact for any split of the batch
  kMeanOfReplicaMeans,  ///< each replica's gradient by its own weight, then the mean over all replicas; an empty
                        ///< replica's mean is 0 and counts (a mean loss under a mirrored strategy)
  kSumOfReplicaMeans,   ///< the same, summed: the number of replicas times larger
  kScaled,  ///< all gradients times a constant: what divides by a fixed number, such as the global batch, or
            ///< divides a mean twice, where every batch has the same weight
};

/// How a gradient is divided: by mode, and by the constant of `kScaled`.
struct GradientNormalization {
  Normalization mode = Normalization::kGlobalMean;  ///< Default: kGlobalMean
  double scale = 1;                                 ///< of kScaled, more than 0. Default: 1

  /// Whether a replica's gradient is divided by its own weight before replicas are added.
  bool divides_replicas() const {
    return mode == Normalization::kMeanOfReplicaMeans || mode == Normalization::kSumOfReplicaMeans;
  }
  /// What a replica's gradient of a loss is multiplied with before replicas are added: 1, or 1 / weight (0 for 0).
  double replica_factor(double weight) const;
  /// What the sum is multiplied with. `weight`: of all replicas and batches. A step on several batches (micro-batches)
  /// is as one on all their rows: a replica's mean is the mean of its means over them.
  double sum_factor(double weight, int replicas, int64_t batches) const;
};

}  // namespace millrace
