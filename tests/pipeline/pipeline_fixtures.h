#pragma once

#include <string>

#include "millrace/pipeline/dataset.h"
#include "tests/support/tfrecord_fixtures.h"

namespace millrace::test {

// Runs a dataset of raw records to its end: what it delivers, with places, and what it throws. Throws std::logic_error
// when a record has no place, an error more than one line, or something comes after it.
ReadShard run_records(const Dataset& records, const StartOptions& options);

// The file of a reading. `links`: a folder for links, whose names promise numbers of records.
Shards fixture_shards(const FixtureReading& reading, const std::string& links);

// Reads fixtures by `Dataset::tfrecord`: with the policy to fail, or where reading is to go on, to leave out and list.
ReadFixture through_pipeline(const std::string& links, const StartOptions& options);

// Reads the files with planted faults with the policy to leave out what is damaged: each delivered record is one of the
// good file's, in order; and nothing is silent: records and regions that are listed make up all of a plain file, and of
// a compressed one each record that is missing, or all after one, is in a region. Where the fault cannot be seen,
// nothing is listed.
FixtureReport check_listed_faults(const std::string& folder, const StartOptions& options);

}  // namespace millrace::test
