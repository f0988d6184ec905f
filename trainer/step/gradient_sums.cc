#include "millrace/trainer/step/gradient_sums.h"

#include <algorithm>

namespace millrace {

GradientSums::GradientSums(const ParameterLayout& layout, std::span<const Bucket> buckets, int replicas)
    : size_(layout.size()), buckets_(buckets), all_reduce_(size_, buckets, replicas), squares_(buckets.size()) {}

void GradientSums::begin_batch(int num_active, bool last) {
  if (!last && accumulated_.data() == nullptr) accumulated_ = FlatBuffer(size_);
  last_ = last;
  without_batch_ = false;
  all_reduce_.begin(num_active);
}

bool GradientSums::arrive(int replica, int bucket) {
  if (!all_reduce_.arrive(replica, bucket)) return false;
  const Bucket& range = buckets_[static_cast<size_t>(bucket)];
  float* sum = all_reduce_.result();
  float* so_far = accumulated_.data();
  if (last_) {
    if (num_accumulated_ > 0) {
      for (int64_t i = range.begin; i < range.end; ++i) sum[i] = so_far[i] + sum[i];
    }
    take_squares(bucket);
  } else if (num_accumulated_ == 0) {
    std::copy(sum + range.begin, sum + range.end, so_far + range.begin);
  } else {
    for (int64_t i = range.begin; i < range.end; ++i) so_far[i] += sum[i];
  }
  return true;
}

void GradientSums::begin_update() {
  without_batch_ = true;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) take_squares(static_cast<int>(bucket));
}

void GradientSums::take_squares(int bucket) {
  const auto index = static_cast<size_t>(bucket);
  squares_[index] = sum_of_squares(part_of({sums(), static_cast<size_t>(size_)}, buckets_[index]));
}

}  // namespace millrace
