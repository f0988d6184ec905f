#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/columnar/cursor.h"
#include "millrace/formats/records/skipped_region.h"

namespace millrace {

struct PlanDigest;
class ShardDigestReader;

/// The place in its stream where a running pipeline is: positions, never rows, so a few hundred bytes to a few KiB
/// whatever the buffers hold. A pipeline of the same dataset that starts with it (`StartOptions::state`) goes on byte
/// for byte, in another process too, with another number of threads, with other rewrites, with the shards in another
/// folder. Another dataset, or other shards, are refused with what differs.
///
///     write_atomically("pipeline.state", pipeline.save().serialize());
///     ...
///     Pipeline pipeline = train.start({.state = PipelineState::parse(read_file("pipeline.state"))});
///
/// A value; cheap to copy; any thread. It may outlive its pipeline.
class PipelineState {
 public:
  /// Reads what `serialize` wrote. Throws `kState` for bytes that are damaged, no state, or of another version.
  [[nodiscard]] static PipelineState parse(std::string_view bytes);
  /// The state as bytes: a protobuf (pipeline_state.proto) with a version and a digest of its own. The first call of a
  /// pipeline's states reads the digest of its shards, some microseconds a shard, and throws `kIo` when one is gone;
  /// the pipeline's watchdog looks after it, and what that throws passes: the next call reads them again. Not inside
  /// the `on_stall` of such a call.
  [[nodiscard]] std::string serialize() const;

  /// What the bytes of `serialize` are for.
  struct Part {
    /// The stages from the output down to this one: `batch/shuffle/interleave/shard_records`; at the end `(dataset and
    /// shards)`
    std::string name = {};
    int64_t stages = 0;  ///< that the part is of: each open shard has a state of its own
    int64_t bytes = 0;   ///< all of them together
  };
  /// The parts of `serialize()`, the output first: together they have as many bytes. Throws as `serialize`.
  [[nodiscard]] std::vector<Part> parts() const;

  /// How many elements had been delivered by `next()`, since the start of the stream and over all resumes.
  int64_t num_delivered() const { return num_delivered_; }
  /// What had been left out of damaged shards, since the start of the stream and over all resumes.
  const SkipCounts& skipped() const { return skipped_; }

  /// What `Pipeline::save` makes.
  PipelineState(Cursor place, int64_t num_delivered, const SkipCounts& skipped, std::shared_ptr<const PlanDigest> plan,
                std::shared_ptr<ShardDigestReader> shards);
  const Cursor& place() const { return place_; }
  /// Throws `kState` when the state is not of this dataset and these shards. Blocks while the shards' ends are read.
  void check(const PlanDigest& plan, ShardDigestReader& shards) const;

 private:
  Cursor place_;
  int64_t num_delivered_;
  SkipCounts skipped_;
  std::shared_ptr<const PlanDigest> plan_;
  std::shared_ptr<ShardDigestReader> shards_;
};

}  // namespace millrace
