#pragma once

#include <string>
#include <vector>

namespace millrace {

/// A loss as a sum and the weight it is to be divided by (labelled tokens, rows, ...). The two travel apart: the
/// trainer adds both over all replicas and divides once. A sum without weight is a mean of 0, never NaN.
struct LossSum {
  double sum = 0;
  double weight = 0;
};

/// A number that is reported beside the loss, as a sum and the weight it is to be divided by.
struct MetricSum {
  std::string name = {};
  double sum = 0;
  double weight = 0;

  double value() const { return weight == 0 ? 0 : sum / weight; }
};

/// What a replica gives for its rows, and, added up in the order of the replicas, what a step or an evaluation gives.
struct StepResult {
  double sum_loss = 0;                    ///< of the first loss, or the only one
  double weight = 0;                      ///< of the first loss
  std::vector<LossSum> more_losses = {};  ///< the second and the following; as many from every replica
  std::vector<MetricSum> metrics = {};    ///< the same names in the same order from every replica

  /// Loss `index`, from 0; zeros where there is none.
  LossSum loss(int index) const;
  /// Adds another's losses and metrics; one may have no metrics (no rows). `kInvalidArgument` for other names of them.
  void add(const StepResult& other);
};

}  // namespace millrace
