#pragma once

#include <cstdint>
#include <span>

#include "millrace/formats/random/counter_rng.h"

namespace millrace {

/// Start values: normal with mean 0 and this standard deviation, a pure function of the generator and `id`, the number
/// of the parameter (Box and Muller 1958).
void fill_normal(const CounterRng& rng, uint64_t id, double deviation, std::span<float> values);

}  // namespace millrace
