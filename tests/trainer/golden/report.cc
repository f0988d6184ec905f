#include "tests/trainer/golden/report.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include <fmt/format.h>

namespace millrace::test {

void GoldenReport::compare(const std::string& name, const std::vector<double>& found,
                           const std::vector<double>& expected, double relative, double absolute) {
  if (expected.empty()) return expect(name, false, "nothing to compare");
  if (found.size() != expected.size()) {
    return expect(name, false, fmt::format("{} values, {} are expected", found.size(), expected.size()));
  }
  double largest = 0;
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    const double difference = std::abs(found[i] - expected[i]);
    if (difference <= worst) continue;  // and not for NaN
    worst = difference;
    at = i;
    if (std::isnan(difference)) break;
  }
  const double limit = relative * largest + absolute;
  expect(name, worst <= limit,
         fmt::format("value {} is {}, expected {}; the difference {:.3g} is above {:.3g}", at, found[at], expected[at],
                     worst, limit));
}

void GoldenReport::expect(const std::string& name, bool holds, const std::string& otherwise) {
  if (holds) {
    ++passed_;
  } else {
    failures_.push_back(name + ": " + otherwise);
  }
}

void GoldenReport::guard(const std::string& name, const std::function<void()>& part) {
  const size_t before = passed_ + failures_.size();
  try {
    part();
    if (passed_ + failures_.size() == before) expect(name, false, "nothing to compare");
  } catch (const std::exception& error) {
    expect(name, false, error.what());
  }
}

}  // namespace millrace::test
