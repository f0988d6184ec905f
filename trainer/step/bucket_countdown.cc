#include "millrace/trainer/step/bucket_countdown.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

BucketsOfParameters::BucketsOfParameters(const ParameterLayout& layout, std::span<const Bucket> buckets)
    : first(layout.parameters().size(), static_cast<int>(buckets.size())), last(layout.parameters().size(), -1) {
  for (int bucket = 0; bucket < static_cast<int>(buckets.size()); ++bucket) {
    const std::vector<int>& parameters = buckets[static_cast<size_t>(bucket)].parameters;
    counts.push_back(static_cast<int>(parameters.size()));
    for (const int id : parameters) {
      const auto parameter = static_cast<size_t>(id);
      first[parameter] = std::min(first[parameter], bucket);
      last[parameter] = std::max(last[parameter], bucket);
    }
  }
}

BucketCountdown::BucketCountdown(const ParameterLayout& layout, const BucketsOfParameters& buckets,
                                 BucketFinal bucket_final, std::function<void()> backward_begins)
    : layout_(layout),
      buckets_(buckets),
      bucket_final_(std::move(bucket_final)),
      backward_begins_(std::move(backward_begins)),
      seen_(layout.parameters().size()),
      left_(buckets.counts) {}

void BucketCountdown::gradient_final(int id) {
  if (id < 0 || static_cast<size_t>(id) >= seen_.size()) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("a gradient was announced for parameter {}", id));
  }
  const auto parameter = static_cast<size_t>(id);
  if (std::exchange(seen_[parameter], uint8_t{1}) != 0) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("the gradient of '{}' was announced twice", layout_.parameters()[parameter].name));
  }
  for (int bucket = buckets_.first[parameter]; bucket <= buckets_.last[parameter]; ++bucket) {
    if (--left_[static_cast<size_t>(bucket)] == 0) bucket_final_(bucket);
  }
}

void BucketCountdown::check_complete() const {
  size_t missing = 0;
  size_t first = 0;
  for (size_t id = seen_.size(); id-- > 0;) {
    if (seen_[id] != 0 || buckets_.last[id] < 0) continue;
    ++missing;
    first = id;
  }
  if (missing == 0) return;
  throw ErrorException(ErrorCode::kInvalidArgument,
                       fmt::format("no gradient for parameter '{}'{}; what no step uses must be frozen",
                                   layout_.parameters()[first].name,
                                   missing > 1 ? fmt::format(" and {} more", missing - 1) : std::string()));
}

}  // namespace millrace
