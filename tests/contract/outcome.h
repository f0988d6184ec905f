#pragma once

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/contract/twin_dataset.h"

namespace millrace::test {

// What a run gave to its caller: elements as text with epoch and rows, then the error that ended it, if one did.
struct Outcome {
  std::vector<std::string> elements;
  std::string error_code;   // empty: none
  std::string error;        // all of it
  bool stopped = false;     // by the caller, before the end
  int64_t num_skipped = 0;  // parts of shards that were left out; not looked at after an error
};

// Where they differ first, in words; empty: nowhere. `whole_errors`: the text of the error counts, not only its code.
[[nodiscard]] std::string difference(const Outcome& expected, const Outcome& found, bool whole_errors);

// What a caller of `next()` should be given: all, or up to `limit` elements.
[[nodiscard]] Outcome expected_outcome(const TwinDataset& twin, size_t limit = SIZE_MAX);
// Takes elements until the end, an error, or until `outcome` has `limit` of them.
void take_elements(Pipeline& pipeline, Outcome& outcome, size_t limit = SIZE_MAX);

// How a dataset is run.
struct RunOptions {
  int threads = 2;
  bool consumer_stalls = false;  // before some elements, so that all queues are full
  std::vector<std::string> disabled_rewrites = {};
  std::shared_ptr<Storage> storage = nullptr;

  StartOptions start_options() const {
    // A hang is an error like any other, with what everybody waits for.
    constexpr double kWatchdogSeconds = 30;
    return {
        .threads = threads, .disabled_rewrites = disabled_rewrites, .storage = storage, .watchdog = kWatchdogSeconds};
  }
};

// A whole run, or its first `limit` elements. As many workers exist as the options say.
[[nodiscard]] Outcome run(const Dataset& dataset, const RunOptions& options, size_t limit = SIZE_MAX);

[[nodiscard]] std::vector<std::string> names_of_all_rewrites();
// Local files through a storage that is late, reads in pieces and fails now and then in a way that a retry helps.
[[nodiscard]] std::shared_ptr<Storage> slow_storage(uint64_t seed);

// The same elements as one `bytes` feature, errors of elements among them as text: they pass the end of a pipeline so,
// and what comes after them can be seen.
[[nodiscard]] Dataset with_errors_shown(const Dataset& input);
[[nodiscard]] Outcome expected_with_errors_shown(const TwinDataset& twin, size_t limit = SIZE_MAX);

}  // namespace millrace::test
