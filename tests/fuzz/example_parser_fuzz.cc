#include "tests/fuzz/example_parser_fuzz.h"

#include <string>
#include <vector>

#include "tests/support/example_parsing.h"

namespace millrace::test {

void fuzz_example_parser(std::string_view bytes) {
  const auto choice = bytes.empty() ? 0 : static_cast<uint8_t>(bytes[0]);
  const std::string record(bytes.substr(std::min<size_t>(bytes.size(), 1)));
  std::vector<FeatureDescription> features{fixed_len("a", {3}, DType::kInt64)};
  if ((choice & 1) != 0) features.back() = features.back().as(DType::kInt32);
  if ((choice & 2) != 0) features.back() = features.back().default_value(std::vector<int64_t>{-1, 2, 3});
  if ((choice & 4) != 0) features.push_back(fixed_len("b", {3, 1}, DType::kFloat32));
  if ((choice & 8) != 0) features.push_back(fixed_len("c", {2}, DType::kBytes));
  if ((choice & 16) != 0)
    features.back() = fixed_len("d", {}, DType::kBytes).default_value(std::vector<std::string>{"x"});
  const ParsedRecord found = parse_with_millrace(ExampleParser(features), record);
  for (const char* reason : {"TensorFlow takes", "was replaced before", "more than 32 bits"}) {
    if (found.refused.find(reason) != std::string::npos) return;
  }
  if (!same(found, parse_with_protobuf(features, record))) __builtin_trap();
}

}  // namespace millrace::test
