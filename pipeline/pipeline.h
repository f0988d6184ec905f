#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/formats/columnar/block.h"
#include "millrace/formats/storage/remote/disk_cache_options.h"
#include "millrace/formats/storage/storage.h"
#include "millrace/pipeline/pipeline_state.h"
#include "millrace/pipeline/skip_ledger.h"
#include "millrace/pipeline/stall.h"
#include "millrace/pipeline/statistics.h"
#include "millrace/pipeline/trace.h"

namespace millrace {

struct PlanNode;
struct HelpingPolicy;

/// One element of a running dataset: after `batch`, a dense tensor [batch, …] for each feature. Holds its buffers
/// alive by itself, also after the pipeline is gone.
class Batch {
 public:
  /// `element`: a block of one element. Throws `kInvalidArgument` for another number of them.
  explicit Batch(Block element);

  const Schema& schema() const { return *element_.schema(); }
  /// Rows of the batch: the first dimension after `batch`; 1 for a single row.
  int64_t num_rows() const { return element_.rows_per_element; }
  /// The epoch of its first row, from 0.
  int64_t epoch() const { return element_.epoch; }
  /// Shape of a feature's tensor.
  Shape shape(std::string_view feature) const { return element_.column(feature).shape(0); }
  /// The values of a feature, row-major; T is the feature's type (`bytes`: std::string_view). Throws `kInvalidArgument`
  /// when there is no such feature, or it has another type.
  template <typename T>
  std::span<const T> values(std::string_view feature) const {
    const Column& column = element_.column(feature);
    if (column.dtype() != DTypeOf<T>::value) refuse_type(feature, DTypeOf<T>::value);
    return column.values<T>(0);
  }
  /// Where the rows of a ragged feature begin, and where the last one ends: num_rows + 1 numbers, the first is 0.
  /// Throws `kInvalidArgument` when there is no such feature, or its dimension is not ragged.
  std::span<const int64_t> row_splits(std::string_view feature, size_t dimension = 1) const {
    return element_.column(feature).row_splits(0, dimension);
  }
  const Block& block() const { return element_; }

 private:
  [[noreturn]] void refuse_type(std::string_view feature, DType dtype) const;

  Block element_;
};

/// What `next()` throws: the error of an element that nobody handled, once, in the element's place.
class PipelineError final : public ErrorException {
 public:
  using ErrorException::ErrorException;
};

struct StartOptions {
  /// Threads that work for the pipeline, see WorkerLimit. Of two or more one may be the caller of `next()` while it
  /// waits there, and on its stack, where no operator calls a function of yours (`OperatorTraits::is_nonblocking`) and
  /// `storage` is the default. Default: 0, as many as there are cores
  int threads = 0;
  bool ordered =
      true;  ///< false: elements come in the order in which they are ready. Default: true, the same order always
  std::vector<std::string> disabled_rewrites = {};  ///< names of rewrites not to use. Default: none
  std::shared_ptr<Storage> storage = nullptr;       ///< where sources read. Default: null, local files and URLs
  /// A cache on disk of what is read from object stores and URLs, together with the default `storage`. Default: none
  DiskCacheOptions disk_cache = {};
  /// Bytes that everything between the files and the caller may take together: chunks, blocks, the rows of shuffles,
  /// batches in queues and with the caller. Nothing runs ahead beyond it; what cannot be done within it is the error
  /// `memory_budget`, which says what it needs. Default: 0, half of the machine's memory
  int64_t memory_budget = 0;
  /// Where to go on: a state of a pipeline of the same dataset. Default: none, at the beginning
  std::optional<PipelineState> state = std::nullopt;
  /// Is told of each part of a shard that is left out (`TfrecordOptions::damage`), inside `next()` on the caller's
  /// thread, when the stream comes to it: before the element after it, in an order that is always the same. What it
  /// throws leaves `next()`. Default: null
  std::function<void(const SkippedRegion&)> on_skip = nullptr;
  /// Seconds after which a wait during which nothing has moved is a stall: no operator delivered anything, no function
  /// of single elements came through one, the storage answered nothing. Waits in `next()`, those in `Dataset::start()`
  /// for the storage, and those of the pipeline's states in `PipelineState::serialize()`, which reads the ends of the
  /// shards. It is noticed after 1 to 1.5 times as long. No thread is made for it. Default: 0, never.
  double watchdog = 0;
  /// What to do about a stall, called inside the call that waits, on its thread, and again after as much time if
  /// nothing moves still; on a thread of the pipeline where the caller works while it waits (`threads`) and what it
  /// works on hangs, and then what it throws leaves `next()` when that returns. It must not use the pipeline. It may
  /// throw, which leaves `next()` and loses nothing: calling that again waits on; it may end the process
  /// (`exit_on_stall`); when it returns, the wait goes on. Default: null, the report is printed on standard error and
  /// `kStalled` is thrown. The destructors of a pipeline, which `start()` comes to when it throws, and of the last copy
  /// of its states wait for functions and reads of local files that do not return. States keep it: it may be called
  /// when the pipeline is gone, and on the thread that serializes while another one waits in `next()`.
  std::function<void(const Stall&)> on_stall = nullptr;
  /// False: stages count and time nothing, `stats()` has no numbers of them, and an exception that a stage throws names
  /// no operator; to measure what the counters cost. Not together with `watchdog`. Default: true
  bool statistics = true;
  /// Where what happens is written down, by operator, thread and time; see Trace. Default: null, nowhere.
  std::shared_ptr<Trace> trace = nullptr;
};

/// A running dataset. Move-only; one thread at a time calls `next()`. The destructor stops the work, also half way and
/// after an error, and returns when no thread of it runs any more; batches stay valid.
class Pipeline {
 public:
  /// What `Dataset::start` makes. `plan`: after rewrites; `written`: before them.
  Pipeline(std::shared_ptr<const PlanNode> plan, const PlanNode& written, const StartOptions& options);
  ~Pipeline();
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&&) noexcept;

  /// The next element, or nothing at the end of the data; waits until it is there. Throws PipelineError for an element
  /// that is an error; after that and after the end it gives nothing. Throws `kInvalidArgument` when called from inside
  /// a function that a pipeline runs: it could wait for itself.
  std::optional<Batch> next();

  /// Where the stream is: after the last element that `next()` gave, before the element that it threw as an error.
  /// Also before the first `next()` and after the end. Costs a few nanoseconds and stops nothing. For the thread that
  /// calls `next()`. Throws `kInvalidArgument` where an order that is not kept (`ordered = false`) or an operator
  /// without states makes a state meaningless.
  PipelineState save() const;

  /// Whether the elements are known never to end, as after `repeat()`. Any thread.
  bool endless() const;

  /// What every operator has done so far. Any thread.
  Statistics stats() const;

  /// What was left out of damaged shards before the last element that `next()` gave, or before the end when it gave
  /// that: the same for any number of threads. Any thread.
  SkipReport skipped() const;

 private:
  friend struct PipelineWithHelpingPolicy;  // of the reserved slot's tests
  class Impl;
  // With other limits on when the caller of `next()` works while it waits (`run/consumer_waiter.h`).
  Pipeline(std::shared_ptr<const PlanNode> plan, const PlanNode& written, const StartOptions& options,
           const HelpingPolicy& helping_policy);

  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace
