#include "millrace/trainer/optimizers/lamb.h"

#include <cmath>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/optimizers/adam.h"

namespace millrace {
namespace {

constexpr std::string_view kSlots[] = {"m", "v"};

}  // namespace

Lamb::Lamb(const ParameterLayout& layout, LambOptions options)
    : options_(std::move(options)),
      decays_(weight_decays(layout, options_.weight_decay, options_.exclude_from_decay)),
      included_(weight_decays(layout, 1, options_.exclude_from_decay)) {
  check_moments(options_.beta1, options_.beta2, options_.epsilon);
}

std::string Lamb::describe() const {
  return fmt::format("lamb(beta1={}, beta2={}, epsilon={}, weight_decay={}, exclude_from_decay='{}')", options_.beta1,
                     options_.beta2, options_.epsilon, options_.weight_decay, options_.exclude_from_decay);
}

std::span<const std::string_view> Lamb::slot_names() const { return kSlots; }

void Lamb::update(const UpdateRange&, const UpdateStep&, const UpdateBuffers&) const {
  throw ErrorException(ErrorCode::kInvalidArgument, "LAMB is a layer-wise rule: it is applied in two passes");
}

LayerSquares Lamb::direction(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers) const {
  const double correction1 = 1 - std::pow(options_.beta1, static_cast<double>(step.number));
  const double correction2 = 1 - std::pow(options_.beta2, static_cast<double>(step.number));
  const auto unbias = static_cast<float>(1 / correction1);
  const auto root_scale = static_cast<float>(1 / std::sqrt(correction2));
  const auto decay = static_cast<float>(decays_[static_cast<size_t>(range.parameter)]);
  const auto b1 = static_cast<float>(options_.beta1);
  const auto b2 = static_cast<float>(options_.beta2);
  const auto c1 = static_cast<float>(1 - options_.beta1);
  const auto c2 = static_cast<float>(1 - options_.beta2);
  const auto epsilon = static_cast<float>(options_.epsilon);
  const float scale = step.gradient_scale;
  const int64_t n = range.end - range.begin;
  const float* __restrict w = buffers.weights + range.begin;
  float* __restrict g = buffers.gradients + range.begin;
  float* __restrict m = buffers.slots[0] + range.begin;
  float* __restrict v = buffers.slots[1] + range.begin;
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = g[i] * scale;
    m[i] = b1 * m[i] + c1 * gradient;
    v[i] = b2 * v[i] + c2 * (gradient * gradient);
    g[i] = m[i] * unbias / (std::sqrt(v[i]) * root_scale + epsilon) + decay * w[i];
  }
  LayerSquares squares;
  for (int64_t i = 0; i < n; ++i) {
    squares.weights += static_cast<double>(w[i]) * w[i];
    squares.direction += static_cast<double>(g[i]) * g[i];
  }
  return squares;
}

void Lamb::apply(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers,
                 const LayerSquares& squares) const {
  double trust = 1;
  if (squares.weights > 0 && squares.direction > 0 && included_[static_cast<size_t>(range.parameter)] != 0) {
    trust = std::sqrt(squares.weights) / std::sqrt(squares.direction);
  }
  const auto rate = static_cast<float>(step.learning_rate * trust);
  const int64_t n = range.end - range.begin;
  float* __restrict w = buffers.weights + range.begin;
  const float* __restrict u = buffers.gradients + range.begin;
  for (int64_t i = 0; i < n; ++i) w[i] -= rate * u[i];
}

}  // namespace millrace
