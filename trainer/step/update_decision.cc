#include "millrace/trainer/step/update_decision.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/not_finite.h"
#include "millrace/trainer/step/all_reduce.h"

namespace millrace {
namespace {

// Of a gradient that optimizers can square in float32, which ends at 3.4e38: a second moment that is infinite stays so,
// and ends the training of its weight without a word.
constexpr double kLargestNorm = 1e18;

std::vector<uint8_t> losses_of(std::span<const Bucket> buckets) {
  std::vector<uint8_t> followed;
  for (const Bucket& bucket : buckets) {
    const auto loss = static_cast<size_t>(bucket.loss);
    followed.resize(std::max(followed.size(), loss + 1));
    followed[loss] = 1;
  }
  return followed;
}

}  // namespace

UpdateDecision::UpdateDecision(const ParameterLayout& layout, std::span<const Bucket> buckets,
                               const StepGraphOptions& options)
    : layout_(layout),
      buckets_(buckets),
      replicas_(options.replicas),
      normalization_(options.normalization),
      clipping_(options.clipping),
      followed_(losses_of(buckets)) {
  if (clipping_ && !(clipping_->norm > 0)) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("clipping to a norm of {}; more than 0 is needed", clipping_->norm));
  }
  if (!(normalization_.scale > 0)) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("normalization has a scale of {}; more than 0 is needed", normalization_.scale));
  }
}

bool UpdateDecision::needs_whole_replicas() const {
  return normalization_.divides_replicas() || (clipping_ && clipping_->per_replica);
}

void UpdateDecision::check_losses(const StepResult& result) const {
  if (result.more_losses.size() + 1 >= num_losses()) return;
  throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("the model gave {} losses; its parameters follow {}",
                                                                result.more_losses.size() + 1, num_losses()));
}

void UpdateDecision::scale_replica(std::span<float> gradients, const StepResult& result, double loss_scale) const {
  for (size_t loss = 0; loss < num_losses(); ++loss) {
    const double weight = result.loss(static_cast<int>(loss)).weight;
    double factor = normalization_.replica_factor(weight);
    if (clipping_ && clipping_->per_replica) {
      double squares = 0;
      for (const Bucket& bucket : buckets_) {
        if (static_cast<size_t>(bucket.loss) == loss) squares += sum_of_squares(part_of(gradients, bucket));
      }
      const double norm = weight == 0 ? 0 : std::sqrt(squares) / (weight * loss_scale);
      if (std::isfinite(norm)) factor *= clip_scale(norm, clipping_->norm, clipping_->form);
    }
    if (factor == 1) continue;
    for (const Bucket& bucket : buckets_) {
      if (static_cast<size_t>(bucket.loss) != loss) continue;
      for (float& gradient : part_of(gradients, bucket)) gradient *= static_cast<float>(factor);
    }
  }
}

void UpdateDecision::add(std::span<const StepResult> replicas, int64_t batch, bool more_follow) {
  const bool one_of_many = batches_ > 0 || more_follow;
  for (size_t replica = 0; replica < replicas.size(); ++replica) {
    const StepResult& result = replicas[replica];
    total_.add(result);
    for (size_t loss = 0; loss < num_losses() && not_finite_.empty(); ++loss) {
      if (followed_[loss] == 0) continue;
      const LossSum sum = result.loss(static_cast<int>(loss));
      if (std::isfinite(sum.sum) && std::isfinite(sum.weight)) continue;
      not_finite_ = fmt::format("{} of replica {}{} is {} (weight {})",
                                loss == 0 ? std::string("the loss") : fmt::format("loss {}", loss), replica,
                                one_of_many ? fmt::format(" in batch {}", batch) : std::string(), sum.sum, sum.weight);
    }
  }
  ++batches_;
}

DecidedUpdate UpdateDecision::decide(const StepNumbers& numbers, double learning_rate, std::span<const double> squares,
                                     const float* gradients) const {
  DecidedUpdate decided{.result = total_, .not_finite = not_finite_};
  std::string& not_finite = decided.not_finite;
  std::vector<double> squares_of_losses(num_losses());
  for (size_t bucket = 0; bucket < squares.size(); ++bucket) {
    squares_of_losses[static_cast<size_t>(buckets_[bucket].loss)] += squares[bucket];
    if (not_finite.empty() && !std::isfinite(squares[bucket])) {
      not_finite = fmt::format("a gradient of {} is not finite", parameter_not_finite(buckets_[bucket], gradients));
    }
  }
  if (total_.weight != 0) decided.loss = total_.sum_loss / total_.weight;
  for (size_t loss = 0; loss < num_losses(); ++loss) {
    const double weight = total_.loss(static_cast<int>(loss)).weight;
    const double factor = normalization_.sum_factor(weight, replicas_, batches_) / numbers.loss_scale;
    const double norm = std::sqrt(squares_of_losses[loss]) * std::abs(factor);
    double clipping = 1;
    if (clipping_ && !clipping_->per_replica) clipping = clip_scale(norm, clipping_->norm, clipping_->form);
    if (loss == 0) decided.clip_scale = clipping;
    decided.gradient_norm = loss == 0 ? norm : std::hypot(decided.gradient_norm, norm);
    if (not_finite.empty() && norm * clipping > kLargestNorm) {
      not_finite = fmt::format("the norm of the gradient is {:.3g}; its square would not be finite", norm);
    }
    decided.updates.push_back({.number = numbers.update,
                               .learning_rate = learning_rate,
                               .gradient_scale = static_cast<float>(factor * clipping)});
  }
  if (!not_finite.empty()) decided.clip_scale = 1;
  return decided;
}

void UpdateDecision::discard() {
  batches_ = 0;
  total_ = {};
  not_finite_.clear();
}

std::string UpdateDecision::parameter_not_finite(const Bucket& bucket, const float* gradients) const {
  for (const UpdateRange& range : ranges_of(layout_, bucket)) {
    const std::span<const float> values(gradients + range.begin, gradients + range.end);
    if (first_not_finite(std::as_bytes(values))) {
      return fmt::format("'{}'", layout_.parameters()[static_cast<size_t>(range.parameter)].name);
    }
  }
  return "a parameter";
}

}  // namespace millrace
