#pragma once

#include <cstdint>
#include <span>

#include "millrace/formats/random/counter_rng.h"
#include "millrace/trainer/parameters.h"

namespace millrace {

/// Start values: normal with mean 0 and this standard deviation, a pure function of the generator and `id`, the number
/// of the parameter (Box and Muller 1958).
void fill_normal(const CounterRng& rng, uint64_t id, double deviation, std::span<float> values);

/// Start values of one parameter in the weights of a layout, as most transformers have them: a matrix is normal with
/// `deviation`; of vectors a gamma of a norm (`...LayerNorm.weight`, `...layer_norm.weight`) is 1, others are 0. A pure
/// function of seed and id.
void initialize_parameter(const ParameterLayout& layout, int id, double deviation, std::span<float> weights,
                          uint64_t seed);

}  // namespace millrace
