#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "millrace/formats/storage/storage.h"
#include "millrace/formats/tfrecord/shard_reader.h"
#include "tests/support/shard_driver.h"
#include "tests/support/shard_walk.h"

namespace millrace::test {

/// What a comparison with a folder of TFRecord fixtures came to.
struct FixtureReport {
  int num_passed = 0;
  std::vector<std::string> failures;  ///< one line each: file, what was expected, what was found
};

/// One reading of a fixture.
struct FixtureReading {
  std::string path;
  std::optional<Compression> compression;  ///< nothing: by content
  std::optional<uint64_t> num_records;     ///< promised to the reader
  bool stop_at_error = true;               ///< otherwise it goes on as far as it can
};

/// What reads the fixtures: a shard reader, a whole pipeline.
using ReadFixture = std::function<ReadShard(const FixtureReading& reading)>;

/// Reads with a `ShardReader`. `options` may change chunk sizes and the like. `storage` must outlive it.
ReadFixture shard_reader(Storage& storage, const ShardReaderOptions& options = {});

/// Reads every file that `FOLDER/manifest.json` lists (files that TensorFlow wrote, all intact) and compares lengths,
/// CRCs and offsets of all records. Each is read with the compression that the manifest declares and again by content.
/// Longer files than `max_file_bytes` are left out. Throws `kIo` when the manifest cannot be read.
FixtureReport check_intact_fixtures(const ReadFixture& read, const std::string& folder,
                                    size_t max_file_bytes = SIZE_MAX);

/// A file with one planted fault.
struct PlantedFault {
  std::string name;         ///< of the file in `FOLDER/corrupt`
  Compression compression;  ///< with which it is to be read
  ShardWalk walk;           ///< what is in it. Without a fault only a promised number of records shows it, if that
};

/// The files that `FOLDER/corrupt/manifest.json` lists, not longer than `max_file_bytes`.
std::vector<PlantedFault> planted_faults(const std::string& folder, size_t max_file_bytes = SIZE_MAX);

/// What is wrong with the records of a reading; nothing when the records before the fault came, and each one is in the
/// file, or where compressed data breaks one of `base`, the good file's records as the manifest lists them.
std::optional<std::string> record_problem(const ReadShard& read, const nlohmann::json& base, const ShardWalk& walk);

/// Reads the files with planted faults: exactly the intact records before the fault, then one error of the right code
/// that names shard, record and offset; when reading goes on, every record that is delivered is one of the good file's,
/// and those that can be reached all come. What is right follows from the bytes of each file (`walk_shard`), not from
/// its name; the records that the manifest calls intact must be there. `goes_on`: false leaves the readings that go on
/// out.
FixtureReport check_corrupt_fixtures(const ReadFixture& read, const std::string& folder,
                                     size_t max_file_bytes = SIZE_MAX, bool goes_on = true);

}  // namespace millrace::test
