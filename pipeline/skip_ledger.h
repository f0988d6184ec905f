#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "millrace/formats/records/skipped_region.h"

namespace millrace {

/// What a pipeline left out of damaged shards, up to the last element that `next()` gave.
struct SkipReport {
  static constexpr size_t kMostRegions = 1000;

  SkipCounts counts = {};                   ///< since the start of the stream, over all resumes
  std::vector<SkippedRegion> regions = {};  ///< of this run, in order; at most the first kMostRegions

  /// Lines for people: the counts, then a region each; at most `most_regions`.
  std::string to_string(size_t most_regions = 20) const;
};

/// Collects the regions as the consumer comes past them. Any thread may look.
class SkipLedger {
 public:
  void resume(const SkipCounts& counts);
  void add(const SkippedRegion& region);
  SkipCounts counts() const;
  SkipReport report() const;

 private:
  mutable std::mutex mutex_;  // taken for a region and a report only
  SkipReport report_;
};

}  // namespace millrace
