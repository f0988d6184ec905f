#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "formats/tfrecord/skipped_region.h"
#include "ops/stage.h"

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
  // The budget, for each run through the data (epoch). What is behind its end is an error again. Where it cannot be
  // told how much is lost, a limit of it is exceeded.
  std::optional<int64_t> max_records = {};  ///< records that may be left out; at least 0. Default: no limit
  std::optional<int64_t> max_bytes = {};    ///< bytes of shards that may be left out; at least 0. Default: no limit
  /// Share of the records that may be left out, of those come through so far, but of 1,000 at least; 0 to 1.
  /// Default: no limit
  std::optional<double> max_share = {};

  /// Throws `kInvalidArgument`.
  void check() const;
  /// As `explain()` shows it: `skip, at most 100 records`.
  std::string to_string() const;
};

/// Holds what a source leaves out against the budget of its dataset: notes (`Error::skipped`) pass as long as it lasts;
/// behind its end they become errors of code `damage_budget`. Counts in the order of the stream, so the same for any
/// number of threads.
class DamageBudgetStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "damage_budget";

  DamageBudgetStage(std::unique_ptr<Stage> input, const DamagePolicy& policy, const StageContext& context);
  Poll next(Block& out) override;

 private:
  std::shared_ptr<const Error> exceeded_by(const Error& note) const;

  const DamagePolicy policy_;
  std::unique_ptr<Stage> input_;
  BufferPool& pool_;
  Block block_;  // of the input, behind a note that became an error
  size_t taken_ = 0;
  int64_t read_ = 0;  // records that came
  SkipCounts skipped_;
  bool unknown_end_ = false;  // of a region
};

/// Opens the stage below a DamageBudgetStage, also from the state of a pipeline that had the other policy.
[[nodiscard]] std::unique_ptr<Stage> open_below_damage_budget(const OpenStage& open, const StageContext& context);

}  // namespace millrace
