#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace millrace {

/// Two results of `dataset_bench --json` side by side.
struct ResultComparison {
  struct Line {
    std::string name;
    double before = 0;
    double after = 0;
    /// Whether no round of one result is within those of the other. Where a result has one round only, its noise is not
    /// known, and 10% are taken for it.
    bool differs = false;
    double ratio() const { return after / before; }
  };
  std::vector<Line> metrics;
  std::vector<Line> stages;  ///< microseconds of work for a record, all threads together
  std::vector<std::string> remarks;
  double slowdown = 1;  ///< wall time for a record, the second over the first

  [[nodiscard]] std::string to_table() const;
  [[nodiscard]] std::string to_json() const;
};

/// Throws `kInvalidArgument` when the results are not of one workload and one stream, with what differs, and `kParse`
/// for what is no result.
[[nodiscard]] ResultComparison compare_results(const nlohmann::ordered_json& before,
                                               const nlohmann::ordered_json& after);

/// Reads both files. `kIo`, `kParse` with the file.
[[nodiscard]] ResultComparison compare_result_files(const std::string& before, const std::string& after);

}  // namespace millrace
