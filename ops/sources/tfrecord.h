#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "millrace/formats/compression/compression.h"
#include "millrace/formats/records/damage_policy.h"
#include "millrace/formats/records/shards.h"
#include "millrace/ops/combine/interleave.h"
#include "millrace/ops/format_arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

struct TfrecordOptions {
  size_t cycle_length = 16;     ///< shards that take turns; at least 1, which reads one after the other. Default: 16
  size_t block_length = 1;      ///< records that a shard gives in its turn; at least 1. Default: 1
  bool shuffle_shards = false;  ///< another order of the shards in each epoch, drawn from `seed`. Default: false
  uint64_t seed = 0;            ///< of the order of shards. Default: 0
  bool ordered = true;          ///< false: whichever shard is ready gives its records first. Default: true
  std::optional<Compression> compression = {};  ///< how the shards are stored. Default: none, as their first bytes say
  uint64_t max_record_bytes = uint64_t{1}
                              << 30;  ///< longer ones are `record_too_large`; see also `memory_budget`. Default: 1 GiB
  DamagePolicy damage = {};           ///< what is done about damaged records. Default: an error
  /// Bytes that are asked of the storage at a time, from 16 KiB to 1 GiB; a longer record is read in one piece. Less
  /// where the memory budget is small; of a plain shard in the page cache no more than 128 to 256 KiB (a quarter of a
  /// core's L2 cache) after the first read. More helps where each read takes long to begin. Changes speed
  /// only. Default: 256 KiB
  size_t chunk_bytes = 256 << 10;
  /// Chunks of each open shard that are read before they are needed, where the storage does not answer at once; at most
  /// 1,024. Changes speed only. Default: 2
  size_t read_ahead = 2;

  static constexpr auto fields() {
    using A = TfrecordOptions;
    return describe<A>("TfrecordOptions", field::stream<&A::cycle_length>, field::stream<&A::block_length>,
                       field::stream<&A::shuffle_shards>, field::stream<&A::seed>, field::stream<&A::ordered>,
                       field::stream<&A::compression>, field::stream<&A::max_record_bytes>, field::damage<&A::damage>,
                       field::speed<&A::chunk_bytes>, field::speed<&A::read_ahead>);
  }
};

/// Source: the records of TFRecord shards as raw bytes, one `bytes` scalar named `record`. Shards are interleaved in
/// tf.data's order (see InterleaveStage), each read and checked in a lane of its own. Both CRCs of every record are
/// checked. An error stands in the place of a record; it names shard, offset and record. What is left out of damaged
/// shards is `TfrecordOptions::damage`; the index beside a shard (`SHARD.index`), where there is one, makes it less.
class TfrecordOperator final : public StageOperator {
 public:
  TfrecordOperator(Shards shards, const TfrecordOptions& options);
  std::string_view name() const override { return "tfrecord"; }
  /// The sum of the shards' counts where all are known and damage is an error, else unknown.
  Cardinality cardinality(std::span<const Cardinality>) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override {
    return {.is_nonblocking = true,
            .forwards_row_views = true,
            .checkpoint_blocker = options_.ordered ? "" : "its inputs are not ordered",
            .is_light = true};
  }
  /// A chunk for each shard that is open.
  int64_t memory_needed(std::span<const Cardinality> inputs) const override;
  const Shards* shards() const override { return &shards_; }
  size_t num_lanes() const override { return interleave_.num_lanes(); }

 private:
  std::unique_ptr<Stage> open_records(const StageContext& context) const;

  Shards shards_;
  TfrecordOptions options_;
  InterleaveOptions interleave_;
};

/// What `Dataset::tfrecord` is called with.
struct TfrecordArguments {
  std::optional<Shards> shards = {};
  TfrecordOptions options = {};

  static constexpr auto fields() {
    using A = TfrecordArguments;
    return describe<A>("tfrecord", field::required<&A::shards>, field::inlined<&A::options>);
  }
};

}  // namespace millrace
