#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "benchmarks/bench_options.h"

namespace millrace {

/// The unavoidable work of a workload in plain loops over the kernels that the engine uses too: what takes less time
/// cannot be had with these kernels. No queue and no node of a graph, nothing allocated for a record or a batch, every
/// buffer used again while it is in the caches; which record goes where was planned before.
///
/// What is in it: reads from the page cache, unpacking, both CRCs of every record, where the workload shuffles the copy
/// of each record to where it waits, parsing, masking or padding into the batch, and a look at each row of the finished
/// batch. What is not: finding out the order, opening files, making memory; of `images`, `jpeg` and `jpeg_scaled` the
/// copy for the shuffle neither, since a record is read when its turn comes. Those of pictures have loops of their own
/// around libjpeg, which make one pass over memory where the engine's operators make one each: over these floors stand
/// the engine's passes over memory too.
class Floor {
 public:
  virtual ~Floor() = default;

  virtual int64_t rows() const = 0;   ///< in one pass
  virtual int64_t bytes() const = 0;  ///< of the batches of one pass
  /// What the engine's batches of one pass hash to, see `batch_hash`.
  virtual std::span<const uint64_t> expected() const = 0;

  /// Makes the batches once. `digests`: where not null, the hash of each batch goes there. Throws what is wrong with
  /// the data, which may have changed meanwhile.
  virtual void pass(std::vector<uint64_t>* digests) = 0;
};

/// Throws `kInvalidArgument` with the names of those that have one when the workload of the options has no floor.
[[nodiscard]] std::unique_ptr<Floor> make_floor(const BenchOptions& options);

}  // namespace millrace
