#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace millrace::test {

// Runs one line of tests/data/parse_example (its README has the format) through the operators, record by record and as
// a batch, and compares with the rule of these parsers: for valid protobuf that TensorFlow accepts, TensorFlow's
// values; where it answers what protobuf refuses, gives other values than protobuf's, or crashes, an error; where it
// refuses valid protobuf, protobuf's answer. Row partitions that do not cut up their values are always an error.
// Returns the first difference, or nothing.
std::string run_parse_case(const nlohmann::json& golden);

}  // namespace millrace::test
