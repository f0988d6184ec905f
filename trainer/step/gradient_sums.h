#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "millrace/trainer/parameters.h"
#include "millrace/trainer/step/all_reduce.h"

namespace millrace {

/// The gradients of a step: summed over the replicas of each batch (AllReduce), then over its batches, in the order of
/// the calls, bucket by bucket; and the sums of squares that the decision needs.
///
/// A batch: `begin_batch`, then from the replicas' threads `take_buffer`, `arrive` and `leave`, then `end_batch` from
/// one thread. The sums of a step are there when all buckets of its last batch have arrived, or after `begin_update`.
class GradientSums {
 public:
  /// `layout` and `buckets`, those that are trained, must outlive it.
  GradientSums(const ParameterLayout& layout, std::span<const Bucket> buckets, int replicas);

  /// A batch that replicas 0 to `num_active` - 1 have rows of. `last`: of its step; the others are accumulated, in a
  /// buffer that the first of them makes.
  void begin_batch(int num_active, bool last);
  /// Into which the replica writes its gradients, `[layout.size()]`.
  std::span<float> take_buffer(int replica) { return all_reduce_.take_buffer(replica); }
  /// The replica's bucket is final. True to the one caller whose additions completed the bucket's sum.
  bool arrive(int replica, int bucket);
  /// The replica writes to its buffer no more.
  void leave(int replica) { all_reduce_.leave(replica); }
  /// Also after a batch that was abandoned, once no replica runs any more. The sums of its step are gone, accumulated
  /// ones stay.
  void end_batch() { all_reduce_.end(); }
  /// The batch counts: it is among the accumulated ones.
  void keep_batch() { ++num_accumulated_; }

  /// A step on what was accumulated, without a further batch.
  void begin_update();
  /// The sums over all replicas and batches, `[layout.size()]`. Its owner may write to them.
  float* sums() { return without_batch_ ? accumulated_.data() : all_reduce_.result(); }
  /// Whether the step is one without a batch of its own.
  bool without_batch() const { return without_batch_; }
  /// Of `sums`, by bucket.
  std::span<const double> squares() const { return squares_; }

  int64_t num_accumulated() const { return num_accumulated_; }
  /// Gives up what was accumulated.
  void discard() { num_accumulated_ = 0; }

  /// The most buffers of replicas that were live at once so far.
  int peak_buffers() const { return all_reduce_.peak_buffers(); }

 private:
  void take_squares(int bucket);

  const int64_t size_;
  const std::span<const Bucket> buckets_;
  AllReduce<float> all_reduce_;
  FlatBuffer accumulated_;  // made by the first batch that is
  int64_t num_accumulated_ = 0;
  bool last_ = true;
  bool without_batch_ = false;
  std::vector<double> squares_;  // by bucket
};

}  // namespace millrace
