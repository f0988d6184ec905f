#include "tests/trainer/golden/report.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <limits>

#include <fmt/format.h>

namespace millrace::test {

std::string GoldenGroup::line() const {
  std::string line = fmt::format("{}: {} check{}", name, checks, checks == 1 ? "" : "s");
  if (largest) line += fmt::format(", largest difference {:.2g} of its limit", *largest);
  if (failed > 0) line += fmt::format(", {} failed", failed);
  return line;
}

void GoldenReport::begin_group(const std::string& name) {
  const auto found = std::ranges::find(groups_, name, &GoldenGroup::name);
  group_ = static_cast<size_t>(found - groups_.begin());
  if (found == groups_.end()) groups_.push_back({.name = name});
}

GoldenGroup& GoldenReport::group() {
  if (groups_.empty()) begin_group("checks");
  return groups_[group_];
}

std::vector<GoldenGroup> GoldenReport::groups() const {
  std::vector<GoldenGroup> groups;
  std::ranges::copy_if(groups_, std::back_inserter(groups), [](const GoldenGroup& group) { return group.checks > 0; });
  return groups;
}

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
  // Exact figures have a limit of 0.
  const double ratio = worst == 0 ? 0 : worst / limit;
  GoldenGroup& compared = group();
  compared.largest =
      std::max(compared.largest.value_or(0), std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio);
  expect(name, worst <= limit,
         fmt::format("value {} is {}, expected {}; the difference {:.3g} is above {:.3g}", at, found[at], expected[at],
                     worst, limit));
}

void GoldenReport::expect(const std::string& name, bool holds, const std::string& otherwise) {
  ++group().checks;
  if (holds) {
    ++passed_;
  } else {
    ++group().failed;
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
