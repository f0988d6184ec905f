#include "tests/support/tfrecord_fixtures.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tests/support/shard_walk.h"

namespace millrace::test {
namespace {

using nlohmann::json;

json load_manifest(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw ErrorException({.code = ErrorCode::kIo, .message = "cannot read the manifest", .shard = path});
  return json::parse(in);
}

// One record as a manifest lists it.
std::optional<std::string> difference(const ReadRecord& found, const json& expected, bool with_offset) {
  const std::string crc = fmt::format("{:08x}", plain_crc32c(found.payload));
  if (expected.at("length") != found.payload.size() || expected.at("crc32c") != crc) {
    return fmt::format("record {}: {} bytes with CRC {}, expected {} with {}", found.index, found.payload.size(), crc,
                       expected.at("length").dump(), expected.at("crc32c").dump());
  }
  if (with_offset && expected.at("offset") != found.offset) {
    return fmt::format("record {}: offset {}, expected {}", found.index, found.offset, expected.at("offset").dump());
  }
  return std::nullopt;
}

std::string describe(const ReadShard& read) {
  if (read.hung) return "nobody woke the reader: it hangs";
  std::string text = fmt::format("{} records", read.records.size());
  for (const RecordFault& fault : read.faults) text += ", then " + fault.error.to_string();
  return text;
}

std::optional<std::string> intact_problem(const ReadShard& read, const json& expected, bool with_offset) {
  if (read.hung || !read.faults.empty() || read.records.size() != expected.size()) {
    return fmt::format("expected {} records and no error, found {}", expected.size(), describe(read));
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (read.records[i].index != i) return fmt::format("record {} came as number {}", read.records[i].index, i);
    if (auto text = difference(read.records[i], expected[i], with_offset)) return text;
  }
  return std::nullopt;
}

// What a manifest says of a file with a planted fault is true of its bytes.
std::optional<std::string> manifest_problem(const json& entry, const json& base, const ShardWalk& walk) {
  const auto before = entry.at("intact_before").get<size_t>();
  if (walk.num_before < before) {
    return fmt::format("the manifest says {} intact records, {} are in the file", before, walk.num_before);
  }
  for (size_t i = 0; i < before; ++i) {
    if (auto text = difference(walk.records[i], base[i], entry.at("compression") == "")) return "in the file, " + *text;
  }
  return std::nullopt;
}

// The first error describes the fault and its place.
std::optional<std::string> error_problem(const ReadShard& stopped, const json& entry, const ShardWalk& walk) {
  if (stopped.faults.size() != 1 || !walk.codes.contains(stopped.faults[0].error.code)) {
    std::vector<std::string_view> names;
    for (const ErrorCode code : walk.codes) names.push_back(to_string(code));
    return fmt::format("expected an error of {}, found {}", fmt::join(names, " or "), describe(stopped));
  }
  const RecordFault& fault = stopped.faults[0];
  if (fault.error.shard.find(entry.at("file").get<std::string>()) == std::string::npos) {
    return "the error does not name the shard";
  }
  if (fault.error.record != static_cast<int64_t>(stopped.records.size())) {
    return fmt::format("the error names record {}, expected {}", fault.error.record, stopped.records.size());
  }
  const bool plain = entry.at("compression") == "";
  if (plain && fault.error.offset != static_cast<int64_t>(walk.fault_offset)) {
    return fmt::format("the error names offset {}, the record begins at {}", fault.error.offset, walk.fault_offset);
  }
  if (fault.begin > fault.end || (plain && fault.end > entry.at("file_bytes"))) return "lost bytes make no sense";
  return std::nullopt;
}

std::optional<std::string> corrupt_problem(const json& entry, const json& base, const ShardWalk& walk,
                                           const ReadShard& stopped, const std::optional<ReadShard>& continued,
                                           const ReadShard& counted) {
  if (auto text = manifest_problem(entry, base, walk)) return text;
  for (const ReadShard* read : {&stopped, continued ? &*continued : &stopped, &counted}) {
    if (auto text = record_problem(*read, base, walk)) return text;
  }
  const size_t before = walk.num_before;
  if (walk.is_unpacked && stopped.records.size() != before)
    return fmt::format("expected {} records, found {}", before, describe(stopped));
  if (continued && walk.is_unpacked && continued->records.size() != walk.records.size()) {
    return fmt::format("going on: expected {} records, found {}", walk.records.size(), describe(*continued));
  }
  if (walk.has_fault()) return error_problem(stopped, entry, walk);
  if (!stopped.faults.empty()) return fmt::format("expected no error, found {}", describe(stopped));
  if (before == base.size()) {
    if (!counted.faults.empty()) return fmt::format("expected no error, found {}", describe(counted));
    return std::nullopt;
  }
  // What nobody can see in the file, the promised number shows.
  const bool seen = counted.faults.size() == 1 && counted.faults[0].error.code == ErrorCode::kCardinality &&
                    counted.faults[0].error.message.find(std::to_string(base.size())) != std::string::npos &&
                    counted.faults[0].error.message.find(std::to_string(before)) != std::string::npos;
  if (!seen) return fmt::format("expected cardinality with both numbers, found {}", describe(counted));
  return std::nullopt;
}

PlantedFault planted_fault(const std::string& folder, const json& entry) {
  const std::string name = entry.at("file");
  const auto compression = compression_from_name(entry.at("compression").get<std::string>());
  std::ifstream in(folder + "/corrupt/" + name, std::ios::binary);
  if (!in || !compression) {
    throw ErrorException({.code = ErrorCode::kIo, .message = "cannot read a file of the manifest", .shard = name});
  }
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  return {.name = name, .compression = *compression, .walk = walk_shard(bytes, *compression)};
}

void note(FixtureReport& report, const std::string& name, const std::optional<std::string>& problem) {
  if (problem) {
    report.failures.push_back(fmt::format("{}: {}", name, *problem));
  } else {
    ++report.num_passed;
  }
}

}  // namespace

std::optional<std::string> record_problem(const ReadShard& read, const json& base, const ShardWalk& walk) {
  if (read.hung) return "nobody woke the reader: it hangs";
  auto in_file = walk.records.begin();
  for (const ReadRecord& record : read.records) {
    in_file = std::find_if(in_file, walk.records.end(), [&](const ReadRecord& r) { return r.index >= record.index; });
    if (in_file != walk.records.end() && *in_file == record) continue;
    if (walk.is_unpacked) return fmt::format("record {} at {} is not in the file", record.index, record.offset);
    if (record.index >= base.size()) return fmt::format("record {} is more than there are", record.index);
    if (auto text = difference(record, base[record.index], /*with_offset=*/false)) return text;
  }
  if (read.records.size() < walk.num_before) {
    return fmt::format("expected {} records, found {}", walk.num_before, describe(read));
  }
  return std::nullopt;
}

ReadFixture shard_reader(Storage& storage, const ShardReaderOptions& options) {
  return [&storage, options, pool = std::make_shared<BufferPool>()](const FixtureReading& reading) {
    ShardReaderOptions with = options;
    with.compression = reading.compression;
    with.num_records = reading.num_records;
    return read_shard(storage, *pool, reading.path, with, reading.stop_at_error);
  };
}

FixtureReport check_intact_fixtures(const ReadFixture& read, const std::string& folder, size_t max_file_bytes) {
  FixtureReport report;
  const json manifest = load_manifest(folder + "/manifest.json");
  std::map<std::string, json> records_of;
  for (const json& entry : manifest.at("files")) {
    if (entry.contains("records")) records_of[entry.at("file")] = entry.at("records");
  }
  for (const json& entry : manifest.at("files")) {
    if (entry.at("file_bytes").get<size_t>() > max_file_bytes) continue;
    const std::string name = entry.at("file");
    const std::string declared = entry.at("compression");
    const json& expected = entry.contains("records") ? entry.at("records") : records_of.at(entry.at("records_as_in"));
    if (entry.at("record_count") != expected.size()) {
      note(report, name, fmt::format("record_count is not that of the {} records listed", expected.size()));
      continue;
    }
    for (const bool by_content : {false, true}) {
      const ReadShard found = read({.path = folder + "/" + name,
                                    .compression = by_content ? std::nullopt : compression_from_name(declared),
                                    .num_records = expected.size(),
                                    .stop_at_error = true});
      note(report, fmt::format("{} ({})", name, by_content ? "by content" : declared),
           intact_problem(found, expected, declared.empty()));
    }
  }
  return report;
}

std::vector<PlantedFault> planted_faults(const std::string& folder, size_t max_file_bytes) {
  std::vector<PlantedFault> faults;
  const json manifest = load_manifest(folder + "/corrupt/manifest.json");
  for (const json& entry : manifest.at("files")) {
    if (entry.at("file_bytes").get<size_t>() > max_file_bytes) continue;
    faults.push_back(planted_fault(folder, entry));
  }
  return faults;
}

FixtureReport check_corrupt_fixtures(const ReadFixture& read, const std::string& folder, size_t max_file_bytes,
                                     bool goes_on) {
  FixtureReport report;
  const json manifest = load_manifest(folder + "/corrupt/manifest.json");
  const json& base = manifest.at("base").at("records");
  for (const json& entry : manifest.at("files")) {
    if (entry.at("file_bytes").get<size_t>() > max_file_bytes) continue;
    const PlantedFault fault = planted_fault(folder, entry);
    FixtureReading reading{.path = folder + "/corrupt/" + fault.name, .compression = fault.compression};
    const ReadShard stopped = read(reading);
    std::optional<ReadShard> continued;
    if (goes_on) {
      reading.stop_at_error = false;
      continued = read(reading);
      reading.stop_at_error = true;
    }
    reading.num_records = base.size();
    const ReadShard counted = read(reading);
    note(report, fault.name, corrupt_problem(entry, base, fault.walk, stopped, continued, counted));
  }
  return report;
}

}  // namespace millrace::test
