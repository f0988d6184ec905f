#include "millrace/trainer/metrics/ranks.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace millrace {

std::vector<double> average_ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    // Places begin + 1 to end.
    const double shared = (static_cast<double>(begin + 1) + static_cast<double>(end)) / 2;
    for (; begin < end; ++begin) ranks[order[begin]] = shared;
  }
  return ranks;
}

}  // namespace millrace
