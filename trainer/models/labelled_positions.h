#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

/// The positions of a batch that have a label, so that an LM head runs on these only.
struct LabelledPositions {
  std::vector<int32_t> indices;
  std::vector<int32_t> labels;  ///< theirs

  /// Forgets what was there; `kNoLabel` means none.
  void collect(std::span<const int32_t> all_labels);
};

}  // namespace millrace
