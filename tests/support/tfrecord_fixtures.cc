#include "tests/support/tfrecord_fixtures.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "formats/tfrecord/crc.h"

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
  const std::string crc = fmt::format("{:08x}", crc32c(found.payload));
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

// The codes that describe a planted fault; empty: nothing is wrong with the file.
std::set<ErrorCode> expected_codes(const std::string& name) {
  const auto begins = [&name](std::initializer_list<std::string_view> prefixes) {
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&](std::string_view prefix) { return name.starts_with(prefix); });
  };
  if (begins({"zlib_two_streams", "truncated_boundary"})) return {};
  if (name.find("_read_as_") != std::string::npos) return {ErrorCode::kCompression};
  // Damaged deflate data may still unpack, to bytes that the CRCs of records refuse.
  if (begins({"gzip_flip_early", "gzip_flip_middle", "gzip_flip_late", "zlib_flip"})) {
    return {ErrorCode::kCompression, ErrorCode::kPayloadCrc, ErrorCode::kLengthCrc};
  }
  if (begins({"gzip_length"})) return {ErrorCode::kRecordTooLarge};
  if (begins({"gzip_payload"})) return {ErrorCode::kPayloadCrc};
  if (begins({"gzip_truncated", "zlib_truncated", "gzip_second_member_cut", "truncated_", "only_"})) {
    return {ErrorCode::kTruncated};
  }
  if (begins({"gzip_", "zlib_"})) return {ErrorCode::kCompression};
  if (begins({"garbage_000", "garbage_0010", "garbage_0011", "zero_tail_000", "zero_tail_0011"})) {
    return {ErrorCode::kTruncated};
  }
  if (begins({"flip_length", "garbage_", "zero_tail_0", "zero_tail_4", "zero_tail_replaces", "zero_all",
              "crc_not_masked", "text"})) {
    return {ErrorCode::kLengthCrc};
  }
  // A length within the limit of a record cannot be told from a file that was cut.
  if (begins({"length_2e24", "length_2e30", "length_one_over_the_rest"})) return {ErrorCode::kTruncated};
  if (begins({"length_2e", "length_big_endian"})) return {ErrorCode::kRecordTooLarge};
  return {ErrorCode::kPayloadCrc};
}

// TensorFlow ignores what follows the first zlib stream; there is more.
size_t num_before(const json& entry, const json& base) {
  return entry.at("file") == "zlib_two_streams.tfrecord" ? base.size() : entry.at("intact_before").get<size_t>();
}

std::optional<std::string> corrupt_problem(const json& entry, const json& base, const ReadShard& stopped,
                                           const std::optional<ReadShard>& continued, const ReadShard& counted) {
  const std::string name = entry.at("file");
  const bool plain = entry.at("compression") == "";
  const std::set<ErrorCode> codes = expected_codes(name);
  for (const ReadShard* read : {&stopped, continued ? &*continued : &stopped, &counted}) {
    if (read->hung) return "nobody woke the reader: it hangs";
    for (const ReadRecord& record : read->records) {
      if (record.index >= base.size()) return fmt::format("record {} is more than there are", record.index);
      if (auto text = difference(record, base[record.index], plain)) return text;
    }
  }
  const size_t before = num_before(entry, base);
  if (stopped.records.size() != before) return fmt::format("expected {} records, found {}", before, describe(stopped));
  if (codes.empty()) {
    if (!stopped.faults.empty()) return fmt::format("expected no error, found {}", describe(stopped));
    if (before == base.size()) return std::nullopt;
    // What nobody can see in the file, the promised number shows.
    const bool seen = counted.faults.size() == 1 && counted.faults[0].error.code == ErrorCode::kCardinality &&
                      counted.faults[0].error.message.find(std::to_string(base.size())) != std::string::npos &&
                      counted.faults[0].error.message.find(std::to_string(before)) != std::string::npos;
    if (!seen) return fmt::format("expected cardinality with both numbers, found {}", describe(counted));
    return std::nullopt;
  }
  if (stopped.faults.size() != 1 || !codes.contains(stopped.faults[0].error.code)) {
    std::vector<std::string_view> names;
    for (const ErrorCode code : codes) names.push_back(to_string(code));
    return fmt::format("expected an error of {}, found {}", fmt::join(names, " or "), describe(stopped));
  }
  const RecordFault& fault = stopped.faults[0];
  if (fault.error.shard.find(name) == std::string::npos) return "the error does not name the shard";
  if (fault.error.record != static_cast<int64_t>(before)) {
    return fmt::format("the error names record {}, expected {}", fault.error.record, before);
  }
  if (plain && before < base.size() && base[before].at("offset") != fault.error.offset) {
    return fmt::format("the error names offset {}, the record begins at {}", fault.error.offset,
                       base[before].at("offset").dump());
  }
  if (fault.begin > fault.end || (!plain ? false : fault.end > entry.at("file_bytes")))
    return "lost bytes make no sense";
  // Where only payloads are damaged, everything else can be reached.
  const bool lengths_are_good = name.find("flip_payload") != std::string::npos || name.starts_with("flip_two") ||
                                name.starts_with("crc_payload") || name.starts_with("crc_ieee") ||
                                name.starts_with("zero_payload") || name.starts_with("gzip_payload_flip");
  const size_t after = entry.at("intact_after");
  size_t reachable = before + after;
  if (name.starts_with("flip_two")) reachable = base.size() - 2;
  if (lengths_are_good && continued && continued->records.size() != reachable) {
    return fmt::format("going on: expected {} records, found {}", reachable, describe(*continued));
  }
  return std::nullopt;
}

void note(FixtureReport& report, const std::string& name, const std::optional<std::string>& problem) {
  if (problem) {
    report.failures.push_back(fmt::format("{}: {}", name, *problem));
  } else {
    ++report.num_passed;
  }
}

}  // namespace

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
    const std::string name = entry.at("file");
    faults.push_back({.name = name,
                      .compression = compression_from_name(entry.at("compression").get<std::string>()),
                      .intact_before = num_before(entry, manifest.at("base").at("records")),
                      .can_be_seen = !expected_codes(name).empty()});
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
    FixtureReading reading{.path = folder + "/corrupt/" + entry.at("file").get<std::string>(),
                           .compression = compression_from_name(entry.at("compression").get<std::string>())};
    const ReadShard stopped = read(reading);
    std::optional<ReadShard> continued;
    if (goes_on) {
      reading.stop_at_error = false;
      continued = read(reading);
      reading.stop_at_error = true;
    }
    reading.num_records = base.size();
    const ReadShard counted = read(reading);
    note(report, entry.at("file"), corrupt_problem(entry, base, stopped, continued, counted));
  }
  return report;
}

}  // namespace millrace::test
