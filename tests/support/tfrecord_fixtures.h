#pragma once

#include <string>
#include <vector>

#include "formats/storage/storage.h"
#include "formats/tfrecord/shard_reader.h"

namespace millrace::test {

/// What a comparison with a folder of TFRecord fixtures came to.
struct FixtureReport {
  int num_passed = 0;
  std::vector<std::string> failures;  ///< one line each: file, what was expected, what was found
};

/// Reads every file that `FOLDER/manifest.json` lists (files that TensorFlow wrote, all intact) and compares lengths,
/// CRCs and offsets of all records. Each is read with the compression that the manifest declares and again by content.
/// `options` may change chunk sizes and the like; throws `kIo` when the manifest cannot be read.
FixtureReport check_intact_fixtures(Storage& storage, const std::string& folder, ShardReaderOptions options = {});

/// Reads every file that `FOLDER/corrupt/manifest.json` lists, each with one planted fault: exactly the intact records
/// before the fault, then one error of the right code; when reading goes on, every record that is delivered is one of
/// the good file's, and those that can be reached all come.
FixtureReport check_corrupt_fixtures(Storage& storage, const std::string& folder, ShardReaderOptions options = {});

}  // namespace millrace::test
