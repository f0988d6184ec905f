#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "millrace/formats/compression/compression.h"
#include "millrace/formats/records/damage_policy.h"
#include "millrace/formats/records/record_splitter.h"
#include "millrace/formats/records/shards.h"
#include "millrace/ops/combine/interleave.h"
#include "millrace/ops/format_arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// How the files of a source are read, whatever is in them.
struct FileReadOptions {
  size_t cycle_length = 1;      ///< files that take turns; at least 1, which reads one after the other. Default: 1
  size_t block_length = 1;      ///< records that a file gives in its turn; at least 1. Default: 1
  bool shuffle_shards = false;  ///< another order of the files in each epoch, drawn from `seed`. Default: false
  uint64_t seed = 0;            ///< of the order of files. Default: 0
  bool ordered = true;          ///< false: whichever file is ready gives its records first. Default: true
  Compression compression = Compression::kNone;  ///< how the files are stored. Default: none, as they are
  uint64_t max_record_bytes = uint64_t{64}
                              << 20;  ///< longer ones are `record_too_large`; see also `memory_budget`. Default: 64 MiB
  DamagePolicy damage = {};           ///< what is done about damage. Default: an error

  static constexpr auto fields() {
    using A = FileReadOptions;
    return describe<A>("FileRead", field::stream<&A::cycle_length>, field::stream<&A::block_length>,
                       field::stream<&A::shuffle_shards>, field::stream<&A::seed>, field::stream<&A::ordered>,
                       field::stream<&A::compression>, field::stream<&A::max_record_bytes>, field::damage<&A::damage>);
  }
};

/// Source: the records of files of one kind as raw bytes, one `bytes` scalar named `record`. Files are interleaved in
/// tf.data's order (see InterleaveStage), each read and unpacked in a lane of its own. An error of a record comes in
/// its place and is the end of its file; another number of records than the shards' counts promise is one too. With a
/// damage policy that leaves out, a record that is too long costs that record alone, what cannot be unpacked the rest
/// of its file, and a file whose size cannot be gives what is whole. A state holds for each open file where the next
/// record begins; a compressed file is unpacked again from its beginning up to there, a zstd file with a seek table
/// from the frame that has it.
class FileSourceOperator : public StageOperator {
 public:
  /// The sum of the shards' counts where all are known and damage is an error, else unknown.
  Cardinality cardinality(std::span<const Cardinality>) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const final;
  OperatorTraits traits() const override {
    return {.forwards_row_views = true, .checkpoint_blocker = options_.ordered ? "" : "its inputs are not ordered"};
  }
  /// A chunk for each file that is open.
  int64_t memory_needed(std::span<const Cardinality> inputs) const final;
  const Shards* shards() const final { return &shards_; }
  size_t num_lanes() const final { return interleave_.num_lanes(); }

 protected:
  /// `operator_name`: what `name` says, which begins the messages about options. `schema`: `record_schema()`, or with
  /// more features after the record: see `more_columns`.
  FileSourceOperator(std::string_view operator_name, SchemaPtr schema, Shards shards, const FileReadOptions& options);
  /// What finds the records of one file, in a fresh run. Longer records than `max_record_bytes` are to be the error
  /// `record_too_large`.
  [[nodiscard]] virtual std::unique_ptr<RecordSplitter> splitter(uint64_t max_record_bytes) const = 0;
  /// The columns of the features after the record, for records of file `shard`. Default: an int64 scalar, the line on
  /// which each record begins, from 0.
  [[nodiscard]] virtual Block::Columns more_columns(size_t shard, const CutRecords& records, BufferPool& pool) const;
  /// For subclasses of this library, which call no function of a user.
  OperatorTraits traits_of_built_in() const {
    OperatorTraits traits = FileSourceOperator::traits();
    traits.is_nonblocking = true;
    return traits;
  }
  bool skips_damage() const { return options_.damage.action == DamagePolicy::kSkip; }

 private:
  friend class FileStage;
  std::unique_ptr<Stage> open_records(const StageContext& context) const;

  Shards shards_;
  FileReadOptions options_;
  InterleaveOptions interleave_;
};

}  // namespace millrace
