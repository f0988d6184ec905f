#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "formats/example/parser.h"

namespace millrace::test {

// What a parser says about one record: why it refused it, or the values of each feature.
struct ParsedRecord {
  std::string refused;                 // empty: accepted
  std::vector<FeatureDefault> values;  // flat, int32 as int64
};

// Equal verdicts and values, floats by their bits.
bool same(const ParsedRecord& a, const ParsedRecord& b);
std::string to_string(const ParsedRecord& parsed);

// By our parser. Also refused when it writes beyond the end of a destination.
ParsedRecord parse_with_millrace(const ExampleParser& parser, std::string_view record);

// By protobuf's classes, slowly and plainly: the oracle.
ParsedRecord parse_with_protobuf(std::span<const FeatureDescription> features, std::string_view record);

enum class ParseCaseResult {
  kPassed,
  kFailed,
  kNotYet,  // a kind of feature that is not built yet
};

struct ParseCaseOutcome {
  ParseCaseResult result = ParseCaseResult::kPassed;
  std::string difference;
};

// Runs one line of tests/data/parse_example (its README has the format) and compares with the rule of
// this parser: for valid protobuf that TensorFlow accepts, TensorFlow's values; where it answers what protobuf
// refuses, gives other values than protobuf's, or crashes, an error; where it refuses valid protobuf, protobuf's
// answer.
ParseCaseOutcome run_parse_case(const nlohmann::json& golden);

// The lines of a file, parsed.
std::vector<nlohmann::json> read_json_lines(const std::string& path);

}  // namespace millrace::test
