#pragma once

#include "millrace/trainer/run/run_options.h"

namespace millrace {

/// Throws what a run would at its start where `out` or the folder of `disk_cache` is none that it can write to, or
/// `trace` no file. Makes a folder beside what is not there yet, to see whether one can, and removes it. Whether a
/// bucket may be written to is not asked.
void check_output_places(const RunOptions& options);

}  // namespace millrace
