#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "millrace/pipeline/dataset.h"

namespace millrace::test {

// Thrown for an operator that is not built yet.
struct NotYet {
  std::string what;
};

// The dataset of the steps of a golden case; the grammar is in tests/data/tfdata_ops/README.md. `jitter`: a seed for
// random cuts and pending between the steps; 0: none. Throws `ErrorException` for what the builder or, by the memory of
// what it calls ragged, tf.data refuses; nlohmann::json::exception for what is not of the grammar.
Dataset tfdata_pipeline(const nlohmann::json& steps, uint64_t jitter);

}  // namespace millrace::test
