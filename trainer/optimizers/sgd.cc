#include "millrace/trainer/optimizers/sgd.h"

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

constexpr std::string_view kSlots[] = {"v"};

}  // namespace

Sgd::Sgd(SgdOptions options) : options_(options) {
  if (!(options.momentum >= 0 && options.momentum < 1)) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("momentum is {}; 0 <= momentum < 1", options.momentum));
  }
}

std::string Sgd::describe() const { return fmt::format("sgd(momentum={})", options_.momentum); }

std::span<const std::string_view> Sgd::slot_names() const {
  if (options_.momentum == 0) return {};
  return kSlots;
}

void Sgd::update(const UpdateRange& range, const UpdateStep& step, const UpdateBuffers& buffers) const {
  const float scale = step.gradient_scale;
  const auto rate = static_cast<float>(step.learning_rate);
  const auto mu = static_cast<float>(options_.momentum);
  const int64_t n = range.end - range.begin;
  float* __restrict w = buffers.weights + range.begin;
  const float* __restrict g = buffers.gradients + range.begin;
  if (options_.momentum == 0) {
    for (int64_t i = 0; i < n; ++i) w[i] -= rate * (g[i] * scale);
    return;
  }
  float* __restrict v = buffers.slots[0] + range.begin;
  for (int64_t i = 0; i < n; ++i) {
    v[i] = mu * v[i] + g[i] * scale;
    w[i] -= rate * v[i];
  }
}

}  // namespace millrace
