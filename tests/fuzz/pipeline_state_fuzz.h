#pragma once

#include <string_view>

namespace millrace::test {

/// Parses any bytes as the state of a pipeline: they are refused with an error, or give a state that is written and
/// read again as it is.
void fuzz_pipeline_state(std::string_view bytes);

}  // namespace millrace::test
