#include "millrace/trainer/models/labelled_positions.h"

#include "millrace/trainer/tensor/cross_entropy.h"

namespace millrace {

void LabelledPositions::collect(std::span<const int32_t> all_labels) {
  indices.clear();
  labels.clear();
  for (size_t i = 0; i < all_labels.size(); ++i) {
    if (all_labels[i] == kNoLabel) continue;
    indices.push_back(static_cast<int32_t>(i));
    labels.push_back(all_labels[i]);
  }
}

}  // namespace millrace
