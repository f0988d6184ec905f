#include "millrace/trainer/step/gradient_normalization.h"

namespace millrace {

double GradientNormalization::replica_factor(double weight) const {
  if (!divides_replicas()) return 1;
  return weight == 0 ? 0 : 1 / weight;
}

double GradientNormalization::sum_factor(double weight, int replicas, int64_t batches) const {
  switch (mode) {
    case Normalization::kGlobalMean: return weight == 0 ? 0 : 1 / weight;
    case Normalization::kMeanOfReplicaMeans: return 1 / (static_cast<double>(replicas) * static_cast<double>(batches));
    case Normalization::kSumOfReplicaMeans: return 1 / static_cast<double>(batches);
    case Normalization::kScaled: return scale;
  }
  return 0;
}

}  // namespace millrace
