#pragma once

#include "benchmarks/floor/row_filler.h"

namespace millrace {

/// Rows of the workloads `jpeg` and `jpeg_scaled`: libjpeg-turbo decodes the rows and columns that a random window
/// needs, and no more; as they come they are resized, flipped and normalized. Records are JPEGs that libjpeg makes RGB
/// of; PNG and CMYK throw `kParse`. Those that take the engine more than these calls (4:1:0 that is scaled, progressive
/// ones that are cut off, damage) become other pixels, so that their batches are refused as others than the engine's.
[[nodiscard]] RowFilling jpeg_filling(uint64_t seed, bool scaled);

}  // namespace millrace
