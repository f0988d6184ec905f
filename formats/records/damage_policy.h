#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "millrace/formats/error.h"

namespace millrace {

/// What a source does about damaged records: checksums that do not match, lengths that cannot be, files that end inside
/// a record, compressed data that cannot be unpacked. A shard that is missing or cannot be read, and another number of
/// records than was promised, are errors always.
///
///     Dataset::tfrecord(shards, {.damage = {.action = DamagePolicy::kSkip, .max_records = 100}})
struct DamagePolicy {
  enum Action {
    kFail,  ///< an error in the place of the records
    kSkip,  ///< they are left out, counted and listed (`Pipeline::skipped`), as long as the budget lasts
  };
  Action action = kFail;  ///< Default: kFail
  // The budget, for each run through the data (epoch). What is after its end is an error again. Where it cannot be
  // told how much is lost, a limit of it is exceeded.
  std::optional<int64_t> max_records = {};  ///< records that may be left out; at least 0. Default: none, no limit
  std::optional<int64_t> max_bytes = {};  ///< bytes of shards that may be left out; at least 0. Default: none, no limit
  /// Share of the records that may be left out, of those come through so far, but of 1,000 at least; 0 to 1.
  /// Default: none, no limit
  std::optional<double> max_share = {};

  /// Whether there is a limit.
  bool has_budget() const { return max_records || max_bytes || max_share; }
  /// Throws `kInvalidArgument`.
  void check() const;
};

/// Whether an error of a source is damage of the content, which a policy may leave out, and not of the storage.
[[nodiscard]] bool is_damage(ErrorCode code);

}  // namespace millrace
