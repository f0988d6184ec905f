#pragma once

#include <cstdint>
#include <vector>

#include "millrace/trainer/batch_view.h"

namespace millrace {

/// Cuts a global batch into one contiguous view per replica, in order. Sizes differ by at most one, the larger ones
/// first, so with fewer rows than replicas the last views are empty. Copies no rows; stateless.
///
///     std::vector<BatchView> views = Distributor(8).split(batch);  // 63 rows: seven times 8, then 7
class Distributor {
 public:
  /// Throws `kInvalidArgument` for fewer than 1 replica.
  explicit Distributor(int num_replicas);
  [[nodiscard]] std::vector<BatchView> split(const BatchView& batch) const;
  /// The rows of each of these views, of a batch of `rows`.
  [[nodiscard]] std::vector<int64_t> sizes(int64_t rows) const;

 private:
  int num_replicas_;
};

}  // namespace millrace
