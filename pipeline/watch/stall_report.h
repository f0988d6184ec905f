#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/pipeline/run/segment_state.h"
#include "millrace/pipeline/stall.h"
#include "millrace/pipeline/watch/watched_storage.h"

namespace millrace {

/// All that is known about a pipeline in which nothing moves.
struct StalledPipeline {
  std::string_view call = "next()";     ///< that the caller waits in; for the storage alone when it is another
  double still_seconds = 0;             ///< without progress
  double waiting_seconds = 0;           ///< the caller has been in this wait
  int threads = 0;                      ///< of the pipeline's arena; 0: no matter
  std::vector<SegmentStates> segments;  ///< the last one's reader is the caller
  std::vector<WatchedFileState> files;  ///< what is in flight for longest first
};

/// Finds out what everybody waits for, going from the caller towards the sources, and puts it into words.
[[nodiscard]] Stall describe_stall(const StalledPipeline& pipeline);

}  // namespace millrace
