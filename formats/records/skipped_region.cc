#include "millrace/formats/records/skipped_region.h"

#include "millrace/formats/utf8.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

namespace millrace {

std::string SkippedRegion::to_string() const {
  std::string text = printable(shard);
  if (begin == end && end_is_known) {
    text += fmt::format(", byte {}, nothing lost", begin);
  } else {
    text += fmt::format(", bytes {} to {}{}, ", begin, end, end_is_known ? "" : " and all after");
    text += records ? fmt::format("{} record{}", *records, *records == 1 ? "" : "s") : "an unknown number of records";
    text += fmt::format(" from {} on", first_record);
  }
  return text + fmt::format(", epoch {}: {}: {}", epoch, millrace::to_string(code), reason);
}

void SkipCounts::add(const SkippedRegion& region) {
  ++regions;
  if (region.records) {
    records += static_cast<int64_t>(*region.records);
  } else {
    ++regions_of_unknown_records;
  }
  bytes += static_cast<int64_t>(region.bytes());
  const std::string text = fmt::format(
      "{:016x} {} {} {} {} {} {} {} {}", digest, region.shard.substr(region.shard.rfind('/') + 1), region.begin,
      region.end, region.end_is_known, region.first_record, region.records ? static_cast<int64_t>(*region.records) : -1,
      region.epoch, millrace::to_string(region.code));
  digest = XXH3_64bits(text.data(), text.size());
}

std::string SkipCounts::to_string() const {
  std::string text =
      fmt::format("{} region{}, {} record{}", regions, regions == 1 ? "" : "s", records, records == 1 ? "" : "s");
  if (regions_of_unknown_records > 0) {
    text += fmt::format(" and those of {} region{} with an unknown number", regions_of_unknown_records,
                        regions_of_unknown_records == 1 ? "" : "s");
  }
  return text + fmt::format(", {} bytes", bytes);
}

}  // namespace millrace
