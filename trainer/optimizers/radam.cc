#include "millrace/trainer/optimizers/radam.h"

#include <cmath>

#include <fmt/format.h>

#include "millrace/trainer/optimizers/adam.h"

namespace millrace {
namespace {

constexpr std::string_view kSlots[] = {"m", "v"};
constexpr double kSmaLimit = 5;

}  // namespace

RadamRectification radam_rectification(double beta2, int64_t t) {
  const double infinite = 2 / (1 - beta2) - 1;
  const double power = std::pow(beta2, static_cast<double>(t));
  RadamRectification result{.sma = infinite - 2 * static_cast<double>(t) * power / (1 - power)};
  if (result.sma >= kSmaLimit) {
    result.r = std::sqrt((result.sma - 4) / (infinite - 4) * (result.sma - 2) / (infinite - 2) * infinite / result.sma);
  }
  return result;
}

Radam::Radam(const ParameterLayout& layout, RadamOptions options)
    : options_(std::move(options)), decays_(weight_decays(layout, options_.weight_decay, options_.exclude_from_decay)) {
  check_moments(options_.beta1, options_.beta2, options_.epsilon);
}

std::string Radam::describe() const {
  return fmt::format("radam(beta1={}, beta2={}, epsilon={}, weight_decay={}, exclude_from_decay='{}')", options_.beta1,
                     options_.beta2, options_.epsilon, options_.weight_decay, options_.exclude_from_decay);
}

std::span<const std::string_view> Radam::slot_names() const { return kSlots; }

void Radam::update(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers) const {
  const double correction1 = 1 - std::pow(options_.beta1, static_cast<double>(step.number));
  const double correction2 = 1 - std::pow(options_.beta2, static_cast<double>(step.number));
  const RadamRectification rectification = radam_rectification(options_.beta2, step.number);
  const auto rate = static_cast<float>(step.learning_rate);
  const auto decay = static_cast<float>(decays_[static_cast<size_t>(range.parameter)]);
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
  const auto run = [&](auto direction) {
    for (int64_t i = 0; i < n; ++i) {
      const float gradient = g[i] * scale;
      m[i] = b1 * m[i] + c1 * gradient;
      v[i] = b2 * v[i] + c2 * (gradient * gradient);
      w[i] -= rate * (direction(m[i], v[i]) + decay * w[i]);
    }
  };
  if (rectification.r == 0) {
    run([unbias = static_cast<float>(1 / correction1)](float first, float) { return first * unbias; });
  } else {
    run([epsilon, factor = static_cast<float>(rectification.r / correction1),
         root_scale = static_cast<float>(1 / std::sqrt(correction2))](float first, float second) {
      return factor * first / (std::sqrt(second) * root_scale + epsilon);
    });
  }
}

}  // namespace millrace
