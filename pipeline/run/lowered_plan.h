#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "millrace/pipeline/plan/plan.h"
#include "millrace/pipeline/run/executor.h"
#include "millrace/pipeline/run/segment.h"
#include "millrace/pipeline/run/stage_statistics.h"
#include "millrace/pipeline/statistics.h"

namespace millrace {

/// How a plan is cut into segments.
///
/// Going from the output to the sources: maps next to each other become the parallel body of one segment; the stage
/// operators before them, up to the next map, become its serial chain. A cut also stands at `prefetch`, and after a
/// map that drops elements when another map follows, because rows are numbered after the chain. Each input of an
/// operator that asks several in turn has a segment of its own. Nested inputs of an operator with lanes get one segment
/// each; inside of them maps run in the chain. Read docs/architecture.md, "What runs where", first.
class LoweredPlan {
 public:
  struct Options {
    bool ordered = true;
    bool statistics = true;  ///< whether stages count and time what they do
    Trace* trace = nullptr;  ///< where spans and counters go, if anywhere
  };

  /// Makes the segments. `executor` must outlive this object.
  LoweredPlan(Executor& executor, const PlanNodePtr& plan, const Options& options);
  ~LoweredPlan();

  /// Prepares all operators, see StageOperator::prepare; gives the bytes that they keep. Before `start`, once.
  [[nodiscard]] int64_t prepare(const Preparation& with) const;

  /// Starts the plan; the reader belongs to the consumer whose waker is in `context`.
  [[nodiscard]] std::unique_ptr<Stage> start(const StageContext& context);

  /// Destroys all chains; only when no body runs.
  void drop_chains();

  /// What every segment does now, the source's first; the last one's reader is the consumer. Any thread.
  [[nodiscard]] std::vector<SegmentStates> states() const;
  /// A number that changes whenever an operator or a job delivers something, or a map comes through an element. Any
  /// thread.
  [[nodiscard]] uint64_t progress() const;

  /// The reports of all operators, the source first.
  [[nodiscard]] std::vector<StageReport> report() const;

  /// At the end of the run, when nobody works any more: says on standard error what is left unfinished
  /// (`SharedByRuns::unfinished`).
  void warn_of_unfinished() const noexcept;

  /// One line for each segment: chain, body, slots.
  [[nodiscard]] std::string to_string() const;

 private:
  struct SegmentRecord {
    SegmentStatistics statistics;
    int number = 0;
    std::vector<std::string> chain;
    std::vector<std::string> body;
    size_t credits = 0;
    bool is_light = true;                  // all that is in the chain
    size_t large_slots = 1;                // of these at least, while blocks are large
    size_t lanes = 0;                      // > 0: stands for all lanes of one operator
    StageStatistics* assembly = nullptr;   // of the last stage's blocks, where the body assembles them
    std::string_view assembly_stage;       // its name
    std::vector<const Segment*> segments;  // the one, or one for each lane
    std::vector<int> inputs;               // numbers of the segments that the chain reads
  };
  struct OperatorRecord {
    StageStatistics statistics;
    SegmentRecord* segment = nullptr;
    bool parallel = false;
  };
  // An operator, and what its runs share.
  struct Shared {
    std::shared_ptr<const StageOperator> op;
    std::shared_ptr<SharedByRuns> shared;
  };
  class LaneSet;

  OpenStage cut(const PlanNodePtr& node, size_t extra_credits);
  // `last`: the stage that is polled by the segment itself.
  OpenStage lower(const PlanNodePtr& node, SegmentRecord& segment, bool nested, bool last = false);
  OpenStage lower_stage(const PlanNodePtr& node, SegmentRecord& segment, bool nested, bool last);
  OpenStage lower_nested_map(const PlanNodePtr& node, SegmentRecord& segment);
  OperatorRecord& record_operator(std::string_view name, SegmentRecord& segment);
  void number(SegmentRecord& segment);
  [[nodiscard]] std::unique_ptr<Stage> metered(std::unique_ptr<Stage> stage, StageStatistics& statistics) const;

  Executor& executor_;
  Options options_;
  // Deques: stages and segments keep pointers to the records.
  std::deque<SegmentRecord> segment_records_;
  std::vector<SegmentRecord*> numbered_segments_;
  std::deque<OperatorRecord> operators_;
  std::vector<std::unique_ptr<LaneSet>> lane_sets_;
  std::vector<std::unique_ptr<Segment>> segments_;
  std::vector<Shared> shared_;
  OpenStage output_;
};

}  // namespace millrace
