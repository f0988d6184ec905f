#include "tests/fuzz/example_parser_fuzz.h"

#include <string>
#include <vector>

#include "tests/fuzz/fuzz_error.h"
#include "tests/support/example_parsing.h"

namespace millrace::test {
namespace {

// What the bits of `choice` choose. `steps`: for feature lists.
std::vector<FeatureDescription> fixed_features(uint8_t choice) {
  std::vector<FeatureDescription> features{fixed_len("a", {3}, DType::kInt64)};
  if ((choice & 1) != 0) features.back() = features.back().as(DType::kInt32);
  if ((choice & 2) != 0) features.back() = features.back().default_value(std::vector<int64_t>{-1, 2, 3});
  if ((choice & 4) != 0) features.push_back(fixed_len("b", {3, 1}, DType::kFloat32));
  if ((choice & 8) != 0) features.push_back(fixed_len("c", {2}, DType::kBytes));
  if ((choice & 16) != 0)
    features.back() = fixed_len("d", {}, DType::kBytes).default_value(std::vector<std::string>{"x"});
  return features;
}

Partition partition_of(uint8_t choice, const char* key) {
  switch (choice % 6) {
    case 0: return row_splits(key);
    case 1: return row_lengths(key);
    case 2: return row_starts(key);
    case 3: return row_limits(key);
    case 4: return value_rowids(key);
    default: return uniform_row_length(1 + choice / 6 % 3);
  }
}

std::vector<FeatureDescription> varying_features(uint8_t choice, bool of_steps) {
  const bool validate = (choice & 1) != 0;
  std::vector<FeatureDescription> features{
      var_len("a", DType::kInt64),
      ragged("b", DType::kFloat32, {partition_of(choice >> 1, "a"), partition_of(choice >> 3, "d")},
             {.validate = validate}),
      fixed_len_sequence("c", {2}, DType::kBytes, {.allow_missing = !of_steps || validate})};
  if ((choice & 2) != 0) features[0] = features[0].as(DType::kInt32);
  if (!of_steps) {
    features.push_back(sparse("s", {"a", "d"}, "b", DType::kFloat32, {4, 9},
                              {.already_sorted = (choice & 4) != 0, .validate = validate}));
  }
  if ((choice & 64) != 0) features.erase(features.begin() + 1);
  return features;
}

}  // namespace

void fuzz_example_parser(std::string_view bytes) {
  const auto choice = bytes.empty() ? uint8_t{0} : static_cast<uint8_t>(bytes[0]);
  const std::string record(bytes.substr(std::min<size_t>(bytes.size(), 1)));
  // The lower bits choose one of each reader's descriptions, so that all readers see every record.
  const std::vector<FeatureDescription> fixed = fixed_features(choice);
  const std::vector<FeatureDescription> varying = varying_features(choice, /*of_steps=*/false);
  const std::vector<FeatureDescription> steps = varying_features(choice, /*of_steps=*/true);
  const std::vector<FeatureDescription> context{fixed[0]};
  const auto compare = [](const ParsedRecord& found, const ParsedRecord& expected) {
    if (refused_as_ambiguous(found) || found.refused.find("more than 32 bits") != std::string::npos) return;
    require(same(found, expected));
  };
  compare(parse_with_millrace(ExampleParser(fixed), record), parse_with_protobuf(fixed, record));
  compare(parse_with_millrace(ExampleParser(varying), record), parse_with_protobuf(varying, record));
  compare(parse_with_millrace(SequenceExampleParser(context, steps), record),
          parse_with_protobuf(context, steps, record));
}

}  // namespace millrace::test
