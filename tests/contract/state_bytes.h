#pragma once

#include <string>

#include "pipeline/pipeline_state.pb.h"

namespace millrace::test {

// What the bytes of a state hold, and the bytes of a state that holds it, with a right digest.
[[nodiscard]] state::State content_of_state(const std::string& bytes);
[[nodiscard]] std::string state_with_content(const state::State& content);

}  // namespace millrace::test
