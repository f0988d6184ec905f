#pragma once

#include <functional>
#include <memory>
#include <string>

#include "millrace/formats/columnar/block.h"
#include "millrace/formats/columnar/memory_gate.h"

namespace millrace {

/// What `Stage::next` answers.
enum class Poll {
  kBlock,    ///< `out` holds the next elements, at least one
  kEnd,      ///< no more elements in this iteration; so does every later call
  kPending,  ///< not now: the stage's waker will be woken when asking again makes sense
};

/// Wakes the node that polls a chain of stages. Any thread; a wake is never lost and never blocks.
class Waker {
 public:
  virtual void wake() noexcept = 0;
  /// Whether a thread sleeps, so that to wake it costs a call of the system: better once for some blocks than for each.
  /// Default: no.
  [[nodiscard]] virtual bool wakes_thread() const noexcept { return false; }

 protected:
  ~Waker() = default;
};

/// How much a stage that gathers rows puts into one block: a message between segments must carry 50 to 100 µs of work,
/// and a block must stay in the cache of a core.
constexpr size_t kBlockElements = 1024;
constexpr int64_t kBlockBytes = 256 << 10;

/// The mutable side of an operator: one run through its elements. A stage is polled by one thread at a time and never
/// blocks; a new epoch is a new stage. The destructor may run at any moment between two calls.
/// docs/new_operator.md has the rules of a stage one by one.
class Stage {
 public:
  Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  virtual ~Stage() = default;

  /// The next elements of this iteration. Errors of elements come inside the block; what is thrown (memory that is not
  /// there) is the error of the next element and the end. A block may hold fewer elements than asked for whenever its
  /// input was pending: how elements are cut into blocks is not part of the stream. Every block says where it begins
  /// (`Block::cursor`), in a state of this stage's: what the stage and its inputs need to give the same elements again
  /// from there on.
  virtual Poll next(Block& out) = 0;
};

class Lanes;
class RowStore;
class Storage;
struct LocalDisk;

/// What all runs of one operator in one pipeline share, from epoch to epoch: the elements of a cache. A run that was
/// given up may still be going on beside the next one, so any thread.
class SharedByRuns {
 public:
  SharedByRuns() = default;
  SharedByRuns(const SharedByRuns&) = delete;
  SharedByRuns& operator=(const SharedByRuns&) = delete;
  virtual ~SharedByRuns() = default;
  /// At the end of a pipeline, when nobody works any more: a line on what the runs leave unfinished; empty: nothing.
  /// May block. Default: empty.
  virtual std::string unfinished() const { return {}; }
};

/// What a stage gets from whoever runs it. Copied by value; the referenced objects outlive every stage.
struct StageContext {
  BufferPool& pool;
  Waker& waker;
  Iteration iteration = {};
  Lanes& lanes;                                       ///< where nested inputs run
  Storage* storage = nullptr;                         ///< where sources read; null where nothing is read from files
  std::shared_ptr<ShardNames> shard_names = nullptr;  ///< where sources name their shards; null: rows have no origins
  /// What to ask before taking memory for something large; null: nothing bounds the memory.
  MemoryGate* memory = nullptr;
  /// Where the stage goes on: a state that a block of such a stage carried. Null: at the beginning.
  StageStatePtr state = nullptr;
  /// What `StageOperator::share` made for this operator at this place of the plan; null for most.
  std::shared_ptr<SharedByRuns> shared = nullptr;
  /// Whether blocks may come with columns still to be made (`Block::assemble`). Default: no.
  bool assembles_later = false;
  /// Where sources put the rows that they have read, for a stage that keeps them long; null: nobody asked for it.
  std::shared_ptr<RowStore> row_store = nullptr;
  LocalDisk* disk = nullptr;  ///< where stages keep files of their own; null where they keep none

  /// Bytes that the pipeline may keep; INT64_MAX: nothing bounds the memory.
  int64_t memory_budget() const { return memory == nullptr ? INT64_MAX : memory->budget(); }
  /// The same for a chain with another waker, or nested inputs in other lanes: everything but what is the operator's
  /// own, `shared` and `assembles_later`.
  [[nodiscard]] StageContext with(Waker& other_waker, Lanes& other_lanes) const {
    return {.pool = pool,
            .waker = other_waker,
            .iteration = iteration,
            .lanes = other_lanes,
            .storage = storage,
            .shard_names = shard_names,
            .memory = memory,
            .state = state,
            .row_store = row_store,
            .disk = disk};
  }
};

/// Opens the stage of one input for one iteration.
using OpenStage = std::function<std::unique_ptr<Stage>(const StageContext&)>;

/// Opens an input at a place in its stream.
[[nodiscard]] std::unique_ptr<Stage> open_at(const OpenStage& open, StageContext context, const Cursor& place);
/// Opens input `index` where the state in `context` says, or at the beginning when there is none.
[[nodiscard]] std::unique_ptr<Stage> open_input(const OpenStage& open, const StageContext& context, size_t index = 0);
/// The numbers of a state that a stage of this kind wrote, at least `least` of them. Throws `kState`.
[[nodiscard]] const std::vector<int64_t>& any_numbers_of(const StageState& state, std::string_view kind, size_t least);
/// The numbers of a state that a stage of this kind wrote, at least `least`, none below 0 or above 2^61. Throws
/// `kState`.
[[nodiscard]] const std::vector<int64_t>& numbers_of(const StageState& state, std::string_view kind, size_t least);

/// Runs nested inputs ahead and side by side: each open input has a lane of its own, and the stage that comes back only
/// takes finished blocks from it. It begins at `place`. `lane` is below the operator's `num_lanes()`; the stage opened
/// before in the same lane must be destroyed first. Without a scheduler (`InlineLanes`) the input is polled directly.
class Lanes {
 public:
  [[nodiscard]] virtual std::unique_ptr<Stage> open(size_t lane, OpenStage open, const StageContext& context,
                                                    const Cursor& place) = 0;

 protected:
  ~Lanes() = default;
};

/// Polls nested inputs in place.
class InlineLanes final : public Lanes {
 public:
  [[nodiscard]] std::unique_ptr<Stage> open(size_t, OpenStage open, const StageContext& context,
                                            const Cursor& place) override {
    return open_at(open, context, place);
  }
};

}  // namespace millrace
