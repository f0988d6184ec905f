#include "millrace/pipeline/run/lowered_plan.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/pipeline/run/asking_stage.h"
#include "millrace/pipeline/run/cut_blocks.h"
#include "millrace/pipeline/run/inline_map_stage.h"
#include "millrace/pipeline/run/metered_stage.h"
#include "millrace/pipeline/run/numbered_rows.h"

namespace millrace {
namespace {

// A lane's ring: one block being taken, one ready. Of large blocks it has as many as fit: each of the other lanes has
// one ready, too.
constexpr size_t kLaneCredits = 2;
constexpr int64_t kLaneBytes = int64_t{4} << 20;
// A serial segment's ring, without a body after it.
constexpr size_t kSerialCredits = 4;
// What large blocks in a ring may take for each thread.
constexpr int64_t kLargeBytesPerThread = int64_t{2} << 20;

// One that each worker has, one that it takes next, and some to spare.
size_t blocks_for_workers(int threads) { return 2 * static_cast<size_t>(threads) + 2; }

bool is_map(const PlanNode& node) { return as_map(node) != nullptr; }

// Whether a part of the plan is to be read to its end.
bool wants_end(const PlanNodePtr& plan) {
  return plan->op->traits().wants_end || std::ranges::any_of(plan->inputs, wants_end);
}

bool leaves_work_to_body(const PlanNode& node) {
  const auto stage = as_stage(node);
  return stage != nullptr && stage->assembles_later();
}

}  // namespace

/// The segments of one operator's lanes, made once and opened again for each nested input.
class LoweredPlan::LaneSet final : public Lanes {
 public:
  /// `reading`: the stages of the lanes, when they are no operators of the plan; or null. `counts`: what they do.
  LaneSet(Executor& executor, size_t num_lanes, const SchemaPtr& schema, SegmentRecord& record,
          StageStatistics* reading, bool counts)
      : reading_(reading), counts_(counts) {
    for (size_t lane = 0; lane < num_lanes; ++lane) {
      segments_.push_back(std::make_unique<Segment>(executor, Segment::Options{.credits = kLaneCredits,
                                                                               .large = {.bytes = kLaneBytes},
                                                                               .schema = schema,
                                                                               .statistics = &record.statistics}));
      record.segments.push_back(segments_.back().get());
    }
  }

  [[nodiscard]] std::unique_ptr<Stage> open(size_t lane, OpenStage open, const StageContext& context,
                                            const Cursor& place) override {
    const OpenStage chain = [this, open = std::move(open)](const StageContext& lane_context) -> std::unique_ptr<Stage> {
      // Lanes within lanes would multiply: deeper inputs are polled in place.
      const StageContext inner = lane_context.with(lane_context.waker, inline_);
      std::unique_ptr<Stage> stage = open(inner);
      if (reading_ == nullptr) return stage;
      return std::make_unique<MeteredStage>(std::move(stage), *reading_, counts_);
    };
    return open_at([&](const StageContext& at) { return segments_[lane]->open(chain, at); }, context, place);
  }

  void drop_chains() {
    for (auto& segment : segments_) segment->drop_chain();
  }

 private:
  InlineLanes inline_;
  StageStatistics* reading_;
  bool counts_;
  std::vector<std::unique_ptr<Segment>> segments_;
};

LoweredPlan::LoweredPlan(Executor& executor, const PlanNodePtr& plan, const Options& options)
    : executor_(executor), options_(options) {
  output_ = cut(plan, 0);
}

LoweredPlan::~LoweredPlan() = default;

int64_t LoweredPlan::prepare(const Preparation& with) const {
  int64_t bytes = 0;
  for (const Shared& of : shared_) {
    try {
      bytes += of.op->prepare(of.shared.get(), with);
    } catch (...) {
      throw ErrorException(current_exception_as_error(of.op->name()));
    }
  }
  return bytes;
}

std::unique_ptr<Stage> LoweredPlan::start(const StageContext& context) { return output_(context); }

void LoweredPlan::drop_chains() {
  for (auto& segment : segments_) segment->drop_chain();
  for (auto& lanes : lane_sets_) lanes->drop_chains();
}

LoweredPlan::OperatorRecord& LoweredPlan::record_operator(std::string_view name, SegmentRecord& segment) {
  OperatorRecord& entry = operators_.emplace_back();
  entry.statistics.name = fmt::format("{}:{}", operators_.size() - 1, name);
  entry.statistics.trace = TraceName(options_.trace, entry.statistics.name);
  entry.segment = &segment;
  return entry;
}

std::unique_ptr<Stage> LoweredPlan::metered(std::unique_ptr<Stage> stage, StageStatistics& statistics) const {
  return std::make_unique<MeteredStage>(std::move(stage), statistics, options_.statistics);
}

void LoweredPlan::number(SegmentRecord& segment) {
  segment.number = static_cast<int>(numbered_segments_.size());
  numbered_segments_.push_back(&segment);
  segment.statistics.trace = TraceName(options_.trace, fmt::format("queue of segment {}", segment.number));
}

// The segment whose output is `node`. Inputs are lowered first, so that numbers follow the way of the data.
OpenStage LoweredPlan::cut(const PlanNodePtr& node, size_t extra_credits) {
  if (const std::optional<size_t> prefetched = node->op->traits().prefetched) {
    return cut(node->inputs[0], extra_credits + *prefetched);
  }
  std::vector<PlanNodePtr> maps;
  PlanNodePtr below = node;
  while (is_map(*below) && (maps.empty() || as_map(*below)->one_to_one())) {
    maps.push_back(below);
    below = below->inputs[0];
  }
  std::reverse(maps.begin(), maps.end());

  SegmentRecord& segment = segment_records_.emplace_back();
  OpenStage chain = lower(below, segment, /*nested=*/false, /*last=*/true);
  number(segment);
  const bool has_body = !maps.empty() || segment.assembly != nullptr;

  Segment::Options options;
  const auto threads = static_cast<size_t>(executor_.threads());
  options.credits = extra_credits + (has_body ? blocks_for_workers(executor_.threads()) : kSerialCredits);
  // What is ready and one in the making; half of the workers are enough for bodies as fast as memory.
  const size_t least_credits = std::max(extra_credits, size_t{1}) + 1;
  options.large = {.bytes = kLargeBytesPerThread * executor_.threads(),
                   .slots = std::max(least_credits, has_body ? threads / 2 + 1 : 0),
                   .slots_of_slow = std::max(least_credits, has_body ? threads : 0)};
  options.assembly = segment.assembly;
  options.assembly_stage = segment.assembly_stage;
  options.ordered = options_.ordered;
  options.meters_maps = options_.statistics;
  options.is_light = segment.is_light && !has_body;
  options.schema = below->op->schema();
  options.statistics = &segment.statistics;
  for (const PlanNodePtr& map : maps) {
    OperatorRecord& entry = record_operator(map->op->name(), segment);
    entry.parallel = true;
    entry.statistics.arguments = map->text(Effect::kStream, /*all=*/false);
    options.maps.push_back(as_map(*map));
    options.map_statistics.push_back(&entry.statistics);
    segment.body.push_back(entry.statistics.name);
  }
  if (!maps.empty()) chain = CutBlocks::before(options.maps, std::move(chain));
  segment.credits = options.credits;
  segment.large_slots = options.large.slots;
  segments_.push_back(std::make_unique<Segment>(executor_, std::move(options)));
  segment.segments.push_back(segments_.back().get());
  return [segment = segments_.back().get(), chain = std::move(chain)](const StageContext& context) {
    return segment->open(chain, context);
  };
}

// The stage of `node` inside the chain of `segment`: its own, or the reader of the segment before.
OpenStage LoweredPlan::lower(const PlanNodePtr& node, SegmentRecord& segment, bool nested, bool last) {
  const bool prefetch = node->op->traits().prefetched.has_value();
  // What a stage leaves to the body needs one after it.
  if (!nested && (prefetch || is_map(*node) || (!last && leaves_work_to_body(*node)))) {
    OpenStage reader = cut(node, 0);
    segment.inputs.push_back(numbered_segments_.back()->number);
    return reader;
  }
  if (prefetch) return lower(node->inputs[0], segment, nested);
  if (is_map(*node)) return lower_nested_map(node, segment);
  return lower_stage(node, segment, nested, last);
}

OpenStage LoweredPlan::lower_nested_map(const PlanNodePtr& node, SegmentRecord& segment) {
  OpenStage input = CutBlocks::before({as_map(*node)}, lower(node->inputs[0], segment, /*nested=*/true));
  OperatorRecord& entry = record_operator(node->op->name(), segment);
  entry.statistics.arguments = node->text(Effect::kStream, /*all=*/false);
  segment.chain.push_back(entry.statistics.name);
  segment.is_light = false;
  return [this, map = as_map(*node), input = std::move(input), &entry](const StageContext& context) {
    NumberedRows numbered(0, {context.state, 0});
    if (needs_numbered_rows(*map)) numbered = NumberedRows(context.state);
    return metered(std::make_unique<InlineMapStage>(open_at(input, context_for(*map, context), numbered.input), map,
                                                    context, entry.statistics, numbered.next_row),
                   entry.statistics);
  };
}

OpenStage LoweredPlan::lower_stage(const PlanNodePtr& node, SegmentRecord& segment, bool nested, bool last) {
  const auto op = as_stage(*node);
  SegmentRecord* lane_segment = nullptr;
  StageStatistics* reading = nullptr;
  if (op->num_lanes() > 0 && !nested) {
    lane_segment = &segment_records_.emplace_back();
    lane_segment->lanes = op->num_lanes();
    lane_segment->credits = kLaneCredits;
    if (node->inputs.empty() || !op->lanes_run_inputs()) {
      // The nested inputs are no operators of the plan (the shards of a source, datasets that a function makes); their
      // work is counted here.
      OperatorRecord& entry = record_operator(
          fmt::format("{}.{}", op->name(), node->inputs.empty() ? "read" : op->work_in_lanes()), *lane_segment);
      lane_segment->chain.push_back(entry.statistics.name);
      reading = &entry.statistics;
    }
  }
  std::vector<OpenStage> inputs;
  for (const PlanNodePtr& input : node->inputs) {
    if (op->inputs_run_ahead() && !nested) {
      inputs.push_back(cut(input, 0));
      segment.inputs.push_back(numbered_segments_.back()->number);
      continue;
    }
    const bool in_lanes = lane_segment != nullptr && op->lanes_run_inputs();
    inputs.push_back(lower(input, in_lanes ? *lane_segment : segment, nested || in_lanes));
  }
  Lanes* lanes = nullptr;
  if (lane_segment != nullptr) {
    number(*lane_segment);
    segment.inputs.push_back(lane_segment->number);
    lane_sets_.push_back(std::make_unique<LaneSet>(executor_, op->num_lanes(), op->schema(), *lane_segment, reading,
                                                   options_.statistics));
    lanes = lane_sets_.back().get();
  }
  OperatorRecord& entry = record_operator(op->name(), segment);
  segment.chain.push_back(entry.statistics.name);
  segment.is_light = segment.is_light && op->traits().is_light;
  const bool assembles_later = last && op->assembles_later();
  if (assembles_later) {
    OperatorRecord& assembly = record_operator(fmt::format("{}.assemble", op->name()), segment);
    assembly.parallel = true;
    segment.assembly = &assembly.statistics;
    segment.assembly_stage = op->name();
    segment.body.push_back(assembly.statistics.name);
  }
  shared_.push_back({op, op->share()});
  const bool asks = op->num_lanes() == 0 && std::ranges::any_of(node->inputs, wants_end);
  return [this, op, inputs = std::move(inputs), &entry, lanes, assembles_later, asks,
          shared = shared_.back().shared](const StageContext& context) -> std::unique_ptr<Stage> {
    StageContext inner = context.with(context.waker, lanes != nullptr ? *lanes : context.lanes);
    inner.shared = shared;
    inner.assembles_later = assembles_later;
    try {
      const StageContext of_stage = context_for(*op, inner);
      if (!asks) return metered(op->open(inputs, of_stage), entry.statistics);
      const auto open = [&](std::vector<OpenStage> asked) { return op->open(std::move(asked), of_stage); };
      return metered(std::make_unique<AskingStage>(open, inputs), entry.statistics);
    } catch (...) {
      throw ErrorException(current_exception_as_error(op->name()));
    }
  };
}

std::vector<SegmentStates> LoweredPlan::states() const {
  std::vector<SegmentStates> all;
  for (const SegmentRecord* entry : numbered_segments_) {
    SegmentStates& states = all.emplace_back();
    states.number = entry->number;
    states.chain = entry->chain;
    states.body = entry->body;
    states.lanes = entry->lanes > 0;
    states.inputs = entry->inputs;
    for (const Segment* segment : entry->segments) states.states.push_back(segment->state());
  }
  return all;
}

uint64_t LoweredPlan::progress() const {
  uint64_t sum = 0;
  for (const OperatorRecord& entry : operators_) {
    sum += static_cast<uint64_t>(entry.statistics.rows.load(std::memory_order_relaxed));
    sum += static_cast<uint64_t>(entry.statistics.errors.load(std::memory_order_relaxed));
  }
  for (const SegmentRecord* entry : numbered_segments_) {
    for (const Segment* segment : entry->segments) sum += segment->elements();
  }
  return sum;
}

std::vector<StageReport> LoweredPlan::report() const {
  constexpr double kSeconds = 1e-9;
  std::vector<StageReport> reports;
  for (const OperatorRecord& entry : operators_) {
    const StageStatistics& counted = entry.statistics;
    const SegmentStatistics& segment = entry.segment->statistics;
    // The waits that have ended first: see Segment::add_current_wait.
    int64_t for_input_ns = segment.waiting_for_input_ns.load();
    int64_t for_output_ns = segment.waiting_for_output_ns.load();
    const int64_t queue = segment.queue.load(std::memory_order_relaxed);
    int64_t usable_slots = 0;
    for (const Segment* running : entry.segment->segments) {
      running->add_current_wait(for_input_ns, for_output_ns);
      usable_slots += static_cast<int64_t>(running->usable_slots());
    }
    reports.push_back(
        {.name = counted.name,
         .segment = entry.segment->number,
         .inputs = entry.segment->inputs,
         .parallel = entry.parallel,
         .copies = std::max(1, static_cast<int>(entry.segment->lanes)),
         .rows = counted.rows.load(std::memory_order_relaxed),
         .bytes = counted.bytes.load(std::memory_order_relaxed),
         .errors = counted.errors.load(std::memory_order_relaxed),
         .lost_bytes = counted.lost_bytes.load(std::memory_order_relaxed),
         .busy_seconds = kSeconds * static_cast<double>(counted.inclusive_ns.load(std::memory_order_relaxed) -
                                                        counted.input_ns.load(std::memory_order_relaxed)),
         .waiting_for_input_seconds = kSeconds * static_cast<double>(for_input_ns),
         .waiting_for_output_seconds = kSeconds * static_cast<double>(for_output_ns),
         .queue = queue,
         .queue_slots = std::max(usable_slots, queue),
         .queue_high_water = segment.queue_high_water.load()});
  }
  return reports;
}

void LoweredPlan::warn_of_unfinished() const noexcept {
  for (const Shared& of : shared_) {
    if (of.shared == nullptr) continue;
    try {
      if (const std::string why = of.shared->unfinished(); !why.empty()) fmt::print(stderr, "millrace: {}\n", why);
    } catch (...) {  // no memory to tell it
    }
  }
}

std::string LoweredPlan::to_string() const {
  std::string text;
  for (const SegmentRecord* segment : numbered_segments_) {
    text += fmt::format("segment {}{}: chain [{}]", segment->number,
                        segment->lanes > 0 ? fmt::format(", {} lanes", segment->lanes) : "",
                        fmt::join(segment->chain, " | "));
    if (!segment->body.empty()) text += fmt::format(" -> parallel body [{}]", fmt::join(segment->body, " + "));
    text += fmt::format(" -> ring of {} slots, of large blocks from {} on\n", segment->credits, segment->large_slots);
  }
  return text;
}

}  // namespace millrace
