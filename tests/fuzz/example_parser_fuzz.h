#pragma once

#include <string_view>

namespace millrace::test {

/// Parses any bytes as an Example and as a SequenceExample, with features of all kinds that the first byte chooses, and
/// compares with protobuf's own parser: the same values, or refused by both, or refused by ours where readers disagree
/// about the meaning.
void fuzz_example_parser(std::string_view bytes);

}  // namespace millrace::test
