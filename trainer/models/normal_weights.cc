#include "millrace/trainer/models/normal_weights.h"

#include <array>
#include <cmath>
#include <numbers>

namespace millrace {
namespace {

// Two numbers of the normal distribution from two random words.
std::array<double, 2> normal_pair(uint32_t first, uint32_t second) {
  const double radius = std::sqrt(-2 * std::log((first + 1.0) / 4294967296.0));
  const double angle = 2 * std::numbers::pi * (second / 4294967296.0);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace

void fill_normal(const CounterRng& rng, uint64_t id, double deviation, std::span<float> values) {
  for (size_t i = 0; i < values.size(); i += 4) {
    const CounterRng::Words words = rng.words(id, i / 4);
    const std::array<double, 2> first = normal_pair(words[0], words[1]);
    const std::array<double, 2> second = normal_pair(words[2], words[3]);
    const std::array<double, 4> four = {first[0], first[1], second[0], second[1]};
    for (size_t j = 0; j < four.size() && i + j < values.size(); ++j) {
      values[i + j] = static_cast<float>(deviation * four[j]);
    }
  }
}

void initialize_parameter(const ParameterLayout& layout, int id, double deviation, std::span<float> weights,
                          uint64_t seed) {
  const Parameter& parameter = layout.parameters()[static_cast<size_t>(id)];
  const std::span<float> values =
      weights.subspan(static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.size));
  if (parameter.shape.size() == 1) {
    const bool gamma = parameter.name.ends_with("LayerNorm.weight") || parameter.name.ends_with("layer_norm.weight");
    std::fill(values.begin(), values.end(), gamma ? 1.0F : 0.0F);
  } else {
    fill_normal(CounterRng(seed, operator_id("initialize")), static_cast<size_t>(id), deviation, values);
  }
}

}  // namespace millrace
