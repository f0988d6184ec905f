#pragma once

#include <span>
#include <vector>

namespace millrace {

/// The rank of each value, from 1 for the lowest; equal values share the mean of their ranks (fractional ranking).
/// None may be NaN.
std::vector<double> average_ranks(std::span<const double> values);

}  // namespace millrace
