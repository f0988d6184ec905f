#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "millrace/formats/example/parser.h"
#include "millrace/formats/example/sequence_parser.h"

namespace millrace::test {

// One column of one record.
struct ParsedValue {
  std::vector<int64_t> sizes;  // its shape, or `Column::sizes` where it is ragged
  FeatureDefault values;       // flat, int32 as int64
};

// What a parser says about one record: why it refused it, or the columns.
struct ParsedRecord {
  std::string refused;  // empty: accepted
  std::vector<ParsedValue> values;
};

// Floats by their bits, so that NaN equals itself and -0 is not 0.
bool same(const ParsedValue& a, const ParsedValue& b);
// Equal verdicts and values.
bool same(const ParsedRecord& a, const ParsedRecord& b);
std::string to_string(const ParsedValue& value);
std::string to_string(const ParsedRecord& parsed);

// An element of a column.
ParsedValue value_of(const Column& column, size_t element);

// By our parsers. Also refused when they write beyond the end of a destination.
ParsedRecord parse_with_millrace(const ExampleParser& parser, std::string_view record);
ParsedRecord parse_with_millrace(const SequenceExampleParser& parser, std::string_view record);

// By protobuf's classes, slowly and plainly: the oracle. `context` and `feature_lists`: of a SequenceExample.
ParsedRecord parse_with_protobuf(std::span<const FeatureDescription> features, std::string_view record);
ParsedRecord parse_with_protobuf(std::span<const FeatureDescription> context,
                                 std::span<const FeatureDescription> feature_lists, std::string_view record);

// Whether our parser refused a record because TensorFlow's reader finds other values in it than protobuf's.
bool refused_as_ambiguous(const ParsedRecord& parsed);

// The lines of a file, parsed.
std::vector<nlohmann::json> read_json_lines(const std::string& path);

}  // namespace millrace::test
