#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "millrace/formats/records/damage_policy.h"
#include "millrace/formats/records/shards.h"
#include "millrace/ops/format_arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

struct GlobalShuffleOptions {
  uint64_t seed = 0;                     ///< another seed, another order. Default: 0
  bool reshuffle_each_iteration = true;  ///< each epoch has its own order. Default: true
  /// Records whose reads are sorted together, 1 to 2^24. Eight times as many are held or on their way, no more than a
  /// quarter of the memory budget. Changes speed only, as do the next two. Default: 8192
  int64_t window = 8192;
  /// Two records of a window with no more bytes between them are read in one piece; at least 0. Default: 8 KiB
  int64_t merge_gap = 8 << 10;
  /// Reads on their way at a time, at least 8, and half of the files that are kept open. Default: 256
  int64_t reads_in_flight = 256;
  uint64_t max_record_bytes = uint64_t{1}
                              << 30;  ///< longer ones are `record_too_large`; see also `memory_budget`. Default: 1 GiB
  DamagePolicy damage = {};           ///< what is done about damaged records. Default: an error

  static constexpr auto fields() {
    using A = GlobalShuffleOptions;
    return describe<A>("GlobalShuffleOptions", field::stream<&A::seed>, field::stream<&A::reshuffle_each_iteration>,
                       field::speed<&A::window>, field::speed<&A::merge_gap>, field::speed<&A::reads_in_flight>,
                       field::stream<&A::max_record_bytes>, field::damage<&A::damage>);
  }
};

/// Source: the records of all shards in a uniformly random order, as raw bytes, one `bytes` scalar named `record`. The
/// order is KeyedPermutation's; there is no buffer that would have to be filled. The shards are not compressed, or with
/// zstd and a seek table (of these a frame is read and unpacked for each record or, in one window, for all that are in
/// it), and `dataset_index` has made their indexes, or a pipeline with it is refused when it starts.
///
/// Windows of the order are read in eight lanes side by side, each window sorted by place (RecordFetcher). Both CRCs of
/// every record are checked. An error stands in the place of a record; it names shard, offset and record. In memory are
/// the indexes, 8 bytes a record, and the windows. A state is a position in the order.
class GlobalShuffleOperator final : public StageOperator {
 public:
  GlobalShuffleOperator(Shards shards, const GlobalShuffleOptions& options);
  std::string_view name() const override { return "global_shuffle"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .checkpoint_blocker = ""}; }
  /// The sum of the shards' counts where all are known and damage is an error, else unknown.
  Cardinality cardinality(std::span<const Cardinality>) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  std::shared_ptr<SharedByRuns> share() const override;
  /// Reads the indexes.
  int64_t prepare(SharedByRuns* shared, const Preparation& with) const override;
  /// The indexes, where the number of records is known.
  int64_t memory_needed(std::span<const Cardinality> inputs) const override;
  const Shards* shards() const override { return &shards_; }
  size_t num_lanes() const override { return kNumLanes; }

  static constexpr size_t kNumLanes = 8;

 private:
  Shards shards_;
  GlobalShuffleOptions options_;
};

/// What `Dataset::global_shuffle` is called with.
struct GlobalShuffleArguments {
  std::optional<Shards> shards = {};
  GlobalShuffleOptions options = {};

  static constexpr auto fields() {
    using A = GlobalShuffleArguments;
    return describe<A>("global_shuffle", field::required<&A::shards>, field::inlined<&A::options>);
  }
};

}  // namespace millrace
