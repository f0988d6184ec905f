#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "millrace/pipeline/pipeline.h"

namespace millrace {

/// What `Dataset::save` wrote.
struct SaveReport {
  int64_t elements = 0;
  uint64_t bytes = 0;  ///< of all files
  double seconds = 0;
  /// Of damaged shards, where their sources leave it out; `SaveOptions::start.on_skip` lists it
  SkipCounts skipped = {};
};

struct SaveOptions {
  bool overwrite = false;   ///< whether elements that are in the folder may be replaced. Default: false
  StartOptions start = {};  ///< how the dataset runs; its `state` must be none. Default: as for `start()`
  /// Is told now and then how many elements were taken so far, on the caller's thread. What it throws leaves `save`,
  /// and the folder as it was, or with all elements where they had all been taken. Default: null
  std::function<void(int64_t elements)> on_progress = nullptr;
};

/// Runs a pipeline with a SaveOperator for `directory` on top to its end.
[[nodiscard]] SaveReport run_save(Pipeline pipeline, const std::string& directory, const SaveOptions& options);

}  // namespace millrace
