#include "millrace/pipeline/skip_ledger.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace {

std::string SkipReport::to_string(size_t most_regions) const {
  if (counts.regions == 0) return "nothing skipped\n";
  std::string text = fmt::format("skipped {}\n", counts.to_string());
  const size_t listed = std::min(most_regions, regions.size());
  for (size_t i = 0; i < listed; ++i) text += fmt::format("  {}\n", regions[i].to_string());
  const int64_t others = counts.regions - static_cast<int64_t>(listed);
  if (others > 0) text += fmt::format("  and {} more\n", others);
  return text;
}

void SkipLedger::resume(const SkipCounts& counts) {
  const std::lock_guard lock(mutex_);
  report_.counts = counts;
}

void SkipLedger::add(const SkippedRegion& region) {
  const std::lock_guard lock(mutex_);
  report_.counts.add(region);
  if (report_.regions.size() < SkipReport::kMostRegions) report_.regions.push_back(region);
}

SkipCounts SkipLedger::counts() const {
  const std::lock_guard lock(mutex_);
  return report_.counts;
}

SkipReport SkipLedger::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

}  // namespace millrace
