#include "tests/pipeline/pipeline_fixtures.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace millrace::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kFrame = 16;  // bytes of a record beside its payload

// Takes what a pipeline delivers.
void take_records(Pipeline& pipeline, ReadShard& read) {
  while (const std::optional<Batch> batch = pipeline.next()) {
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      const auto i = static_cast<size_t>(row);
      Error place;
      batch->block().locate(0, i, place);
      if (place.record < 0) throw std::logic_error("a record without a place");
      read.records.push_back({.index = static_cast<uint64_t>(place.record),
                              .offset = static_cast<uint64_t>(place.offset),
                              .payload = std::string(batch->values<std::string_view>("record")[i])});
    }
  }
}

// What is wrong with what was delivered and listed of one file; empty: nothing.
std::string problem_of(const PlantedFault& fault, const std::string& file, const json& base, const ReadShard& read,
                       const SkipReport& skipped) {
  if (!read.faults.empty()) return "an error: " + read.faults[0].error.to_string();
  if (skipped.counts.regions != static_cast<int64_t>(skipped.regions.size())) return "more regions than are listed";
  if (fault.walk.has_fault() == skipped.regions.empty()) {
    return skipped.regions.empty() ? "nothing is listed" : "a fault that nobody can see: " + skipped.to_string();
  }
  if (auto text = record_problem(read, base, fault.walk)) return *text;
  if (fault.walk.is_unpacked && read.records.size() != fault.walk.records.size()) {
    return fmt::format("{} records, {} can be reached", read.records.size(), fault.walk.records.size());
  }
  const auto is_listed = [&skipped](uint64_t index) {
    return std::any_of(skipped.regions.begin(), skipped.regions.end(), [index](const SkippedRegion& region) {
      return region.first_record <= index && (!region.records || index < region.first_record + *region.records);
    });
  };
  uint64_t next = 0;
  std::map<uint64_t, uint64_t> parts;  // of the file
  for (const ReadRecord& record : read.records) {
    if (record.index < next) return fmt::format("record {} out of order", record.index);
    for (; next < record.index; ++next) {
      if (!is_listed(next)) return fmt::format("record {} is missing and in no region", next);
    }
    ++next;
    parts[record.offset] = record.offset + record.payload.size() + kFrame;
  }
  // Of a plain file the bytes say it: a damaged length may make one record of all that follows.
  const bool plain = fault.compression == Compression::kNone;
  for (; !plain && fault.walk.has_fault() && next < base.size(); ++next) {
    if (!is_listed(next)) return fmt::format("record {} of the lost end is in no region", next);
  }
  for (const SkippedRegion& region : skipped.regions) {
    if (region.shard.find(fault.name) == std::string::npos) return "a region that does not name the shard";
    if (region.reason.empty()) return "a region without a reason";
    if (region.end > region.begin) parts[region.begin] = region.end;
  }
  if (!plain) return "";
  uint64_t at = 0;
  for (const auto& [begin, end] : parts) {
    if (begin != at) return fmt::format("bytes {} to {} are neither delivered nor listed", at, begin);
    at = end;
  }
  if (at != fs::file_size(file)) return fmt::format("the end from byte {} on is neither delivered nor listed", at);
  return "";
}

}  // namespace

Shards fixture_shards(const FixtureReading& reading, const std::string& links) {
  if (!reading.num_records) return Shards::files({reading.path});
  const fs::path link =
      fs::path(links) / fmt::format("{}-{}", fs::path(reading.path).filename().string(), *reading.num_records);
  if (!fs::exists(link)) fs::create_symlink(fs::absolute(reading.path), link);
  return Shards::files({link.string()}).counts_from("*-{count}");
}

ReadShard run_records(const Dataset& records, const StartOptions& options) {
  ReadShard read;
  Pipeline pipeline = records.start(options);
  try {
    take_records(pipeline, read);
  } catch (const PipelineError& e) {
    read.faults.push_back({.error = e.error()});
    if (std::string(e.what()).find('\n') != std::string::npos) throw std::logic_error("an error of several lines");
    if (pipeline.next()) throw std::logic_error("something after the error");
  }
  return read;
}

ReadFixture through_pipeline(const std::string& links, const StartOptions& options) {
  return [links, options](const FixtureReading& reading) {
    const DamagePolicy damage{.action = reading.stop_at_error ? DamagePolicy::kFail : DamagePolicy::kSkip};
    return run_records(Dataset::tfrecord(fixture_shards(reading, links),
                                         {.cycle_length = 1, .compression = reading.compression, .damage = damage}),
                       options);
  };
}

FixtureReport check_listed_faults(const std::string& folder, const StartOptions& options) {
  FixtureReport report;
  std::ifstream in(folder + "/corrupt/manifest.json");
  const json base = json::parse(in).at("base").at("records");
  for (const PlantedFault& fault : planted_faults(folder)) {
    const std::string file = folder + "/corrupt/" + fault.name;
    Pipeline pipeline = Dataset::tfrecord(Shards::files({file}), {.cycle_length = 1,
                                                                  .compression = fault.compression,
                                                                  .damage = {.action = DamagePolicy::kSkip}})
                            .start(options);
    ReadShard read;
    try {
      take_records(pipeline, read);
    } catch (const PipelineError& e) {
      read.faults.push_back({.error = e.error()});
    }
    const std::string problem = problem_of(fault, file, base, read, pipeline.skipped());
    if (problem.empty()) {
      ++report.num_passed;
    } else {
      report.failures.push_back(fmt::format("{}, leaving out: {}", fault.name, problem));
    }
  }
  return report;
}

}  // namespace millrace::test
