#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "millrace/pipeline/dataset.h"

namespace millrace::test {

// The cases of a file in tests/data/file_sources.
[[nodiscard]] std::vector<nlohmann::json> file_source_cases(const std::string& name);
// The same of tests/data/operators.
[[nodiscard]] std::vector<nlohmann::json> operator_cases(const std::string& name);
// Bytes that a case holds as a string.
[[nodiscard]] std::string bytes_of(const nlohmann::json& text);

// The feature `record` of all elements, and the error after them.
struct TakenRecords {
  std::vector<std::string> records;
  std::string error;  // its message, or nothing
  std::optional<Error> what;
};
[[nodiscard]] TakenRecords take_records(const Dataset& dataset, const StartOptions& options = {.threads = 2});

}  // namespace millrace::test
