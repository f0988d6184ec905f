#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "millrace/trainer/model.h"

namespace millrace {

/// Which buckets a parameter has elements in, for buckets that may leave parameters (frozen ones) out.
struct BucketsOfParameters {
  BucketsOfParameters(const ParameterLayout& layout, std::span<const Bucket> buckets);

  std::vector<int> first;   ///< by parameter
  std::vector<int> last;    ///< by parameter; below `first` when it is in none
  std::vector<int> counts;  ///< by bucket: parameters in it
};

/// Counts down, per bucket, the parameters of one replica's step that are not final yet, and tells when a bucket is.
/// Parameters that are in no bucket may be announced or not. Used by the replica's thread.
class BucketCountdown final : public GradientListener {
 public:
  using BucketFinal = std::function<void(int bucket)>;
  /// `layout` and `buckets` must outlive it. `bucket_final`: called with each bucket whose parameters all are.
  BucketCountdown(const ParameterLayout& layout, const BucketsOfParameters& buckets, BucketFinal bucket_final,
                  std::function<void()> backward_begins);

  void backward_begins() override { backward_begins_(); }
  /// Throws `kInvalidArgument` for a parameter that is not there or has been announced before.
  void gradient_final(int id) override;
  /// Throws `kInvalidArgument` naming a parameter that has no gradient.
  void check_complete() const;

 private:
  const ParameterLayout& layout_;
  const BucketsOfParameters& buckets_;
  BucketFinal bucket_final_;
  std::function<void()> backward_begins_;
  std::vector<uint8_t> seen_;  // by parameter: 1 when announced
  std::vector<int> left_;      // by bucket
};

}  // namespace millrace
