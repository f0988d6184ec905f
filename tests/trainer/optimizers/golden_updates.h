#pragma once

#include <string>
#include <vector>

namespace millrace::test {

// What became of golden cases: one line for each that failed, with its name, and one figure for each in all.
struct GoldenReport {
  struct Case {
    std::string name;
    double largest_difference = 0;  // in the measure of its limit
    std::string failure;            // empty: passed
  };
  std::vector<Case> cases;

  int failed() const;
};

// `optimizers.json`: 20 or so updates of small problems by every rule, float32; weights after each update and slots at
// the end. A weight may differ by 4e-7 of the largest of its tensor, or of 1 (three units in the last place), a slot
// by a relative 1e-6.
GoldenReport check_optimizers(const std::string& file);
// `clip_by_global_norm` and `radam_rectification` of the same file, float64.
GoldenReport check_optimizer_formulas(const std::string& file);
// `schedules.json`: learning rates in float64, to a relative 1e-12.
GoldenReport check_schedules(const std::string& file);

}  // namespace millrace::test
