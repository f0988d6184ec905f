#pragma once

#include "benchmarks/floor/batch_writer.h"

namespace millrace {

/// Batches of records as they are: views.
[[nodiscard]] BatchWriting record_writing();

}  // namespace millrace
