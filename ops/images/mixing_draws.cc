#include "millrace/ops/images/mixing_draws.h"

#include <cmath>
#include <numbers>
#include <numeric>

namespace millrace {
namespace {

constexpr uint64_t kBetaDraws = uint64_t{1} << 32;
constexpr uint64_t kPermutationDraws = uint64_t{2} << 32;

// In (0, 1), of 53 bits.
double uniform(uint32_t low, uint32_t high) {
  const uint64_t bits = low | static_cast<uint64_t>(high) << 32;
  return std::ldexp(static_cast<double>(bits >> 11) + 0.5, -53);
}

double on_grid(double x) { return std::ldexp(std::round(std::ldexp(x, 24)), -24); }

}  // namespace

double MixingDraws::symmetric_beta(double alpha) const {
  for (uint64_t tried = 0;; ++tried) {
    const CounterRng::Words words = rng_.words(row_, kBetaDraws + tried);
    const double u = uniform(words[0], words[1]);
    const double v = uniform(words[2], words[3]);
    if (alpha > 0.5) {
      const double radius = std::sqrt(-std::expm1(2 * std::log(u) / (2 * alpha - 1)));
      return on_grid(0.5 + 0.5 * radius * std::cos(2 * std::numbers::pi * v));
    }
    // Of X = u^(1/alpha), Y likewise, X / (X + Y) where X + Y is at most 1; both may be too small for a double.
    const double log_x = std::log(u) / alpha;
    const double log_y = std::log(v) / alpha;
    if (std::exp(log_x) + std::exp(log_y) <= 1) return on_grid(1 / (1 + std::exp(log_y - log_x)));
  }
}

std::vector<size_t> MixingDraws::permutation(size_t size) const {
  std::vector<size_t> order(size);
  std::iota(order.begin(), order.end(), size_t{0});
  CounterRng::Words words{};
  for (size_t i = 0; i + 1 < size; ++i) {
    if (i % 4 == 0) words = rng_.words(row_, kPermutationDraws + i / 4);
    std::swap(order[i], order[i + uniform_below(words[i % 4], static_cast<uint32_t>(size - i))]);
  }
  return order;
}

}  // namespace millrace
