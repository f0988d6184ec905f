#pragma once

#include <string>

#include "millrace/pipeline/dataset.h"

namespace millrace::test {

// The state of a pipeline as bytes.
[[nodiscard]] std::string save(const Pipeline& pipeline);
// A pipeline that goes on from there.
[[nodiscard]] Pipeline resume(const Dataset& dataset, StartOptions options, const std::string& state);

}  // namespace millrace::test
