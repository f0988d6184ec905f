#include "millrace/trainer/optimizers/adam.h"

#include <cmath>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

constexpr std::string_view kSlots[] = {"m", "v"};

}  // namespace

void check_moments(double beta1, double beta2, double epsilon) {
  if (!(beta1 >= 0 && beta1 < 1) || !(beta2 >= 0 && beta2 < 1) || !(epsilon > 0)) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("beta1 {}, beta2 {}, epsilon {}; 0 <= beta < 1 and epsilon > 0 are needed", beta1, beta2, epsilon));
  }
}

Adam::Adam(const ParameterLayout& layout, AdamOptions options)
    : options_(std::move(options)), decays_(weight_decays(layout, options_.weight_decay, options_.exclude_from_decay)) {
  check_moments(options_.beta1, options_.beta2, options_.epsilon);
}

std::string Adam::describe() const {
  return fmt::format(
      "adam(beta1={}, beta2={}, epsilon={}, epsilon_form={}, weight_decay={}, decay_form={}, "
      "exclude_from_decay='{}')",
      options_.beta1, options_.beta2, options_.epsilon,
      options_.epsilon_form == AdamEpsilon::kHat ? "hat" : "corrected", options_.weight_decay,
      options_.decay_form == DecayForm::kScale ? "scale" : "subtract", options_.exclude_from_decay);
}

std::span<const std::string_view> Adam::slot_names() const { return kSlots; }

void Adam::update(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers) const {
  const double correction1 = 1 - std::pow(options_.beta1, static_cast<double>(step.number));
  const double correction2 = 1 - std::pow(options_.beta2, static_cast<double>(step.number));
  const bool hat = options_.epsilon_form == AdamEpsilon::kHat;
  const auto rate =
      static_cast<float>(step.learning_rate * (hat ? std::sqrt(correction2) / correction1 : 1 / correction1));
  const float root_scale = hat ? 1.0F : static_cast<float>(1 / std::sqrt(correction2));
  const double decay = step.learning_rate * decays_[static_cast<size_t>(range.parameter)];
  const auto b1 = static_cast<float>(options_.beta1);
  const auto b2 = static_cast<float>(options_.beta2);
  const auto c1 = static_cast<float>(1 - options_.beta1);
  const auto c2 = static_cast<float>(1 - options_.beta2);
  const auto epsilon = static_cast<float>(options_.epsilon);
  const float scale = step.gradient_scale;
  const int64_t n = range.end - range.begin;
  float* __restrict w = buffers.weights + range.begin;
  const float* __restrict g = buffers.gradients + range.begin;
  float* __restrict m = buffers.slots[0] + range.begin;
  float* __restrict v = buffers.slots[1] + range.begin;
  const auto run = [&](auto decayed) {
    for (int64_t i = 0; i < n; ++i) {
      const float gradient = g[i] * scale;
      m[i] = b1 * m[i] + c1 * gradient;
      v[i] = b2 * v[i] + c2 * (gradient * gradient);
      w[i] = decayed(w[i]) - rate * (m[i] / (std::sqrt(v[i]) * root_scale + epsilon));
    }
  };
  if (decay == 0) {
    run([](float weight) { return weight; });
  } else if (options_.decay_form == DecayForm::kScale) {
    run([keep = static_cast<float>(1 - decay)](float weight) { return weight * keep; });
  } else {
    run([lose = static_cast<float>(decay)](float weight) { return weight - lose * weight; });
  }
}

AdamOptions adamw(double weight_decay, std::string exclude_from_decay) {
  return {.weight_decay = weight_decay, .exclude_from_decay = std::move(exclude_from_decay)};
}

AdamOptions adam_weight_decay(double weight_decay, std::string exclude_from_decay) {
  return {.epsilon_form = AdamEpsilon::kHat,
          .weight_decay = weight_decay,
          .decay_form = DecayForm::kSubtract,
          .exclude_from_decay = std::move(exclude_from_decay)};
}

}  // namespace millrace
