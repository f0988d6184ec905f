#include "millrace/trainer/metrics/constant_columns.h"

#include <algorithm>
#include <cmath>

namespace millrace {

double ConstantColumns::value() const {
  return static_cast<double>(std::ranges::count_if(all_.by_column(), [](double value) { return std::isnan(value); }));
}

}  // namespace millrace
