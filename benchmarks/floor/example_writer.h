#pragma once

#include <vector>

#include "benchmarks/floor/batch_writer.h"
#include "millrace/formats/example/feature_description.h"

namespace millrace {

/// Batches of parsed `tensorflow.Example`s whose features all have fixed shapes: the parser writes to their places.
[[nodiscard]] BatchWriting example_writing(std::vector<FeatureDescription> features);

}  // namespace millrace
