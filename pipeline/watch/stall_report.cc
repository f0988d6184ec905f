#include "millrace/pipeline/watch/stall_report.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

namespace millrace {
namespace {

using Chain = SegmentState::Chain;

// Files in a report; the ones in flight for longest come first.
constexpr size_t kMostFiles = 32;
constexpr size_t kMostArgumentBytes = 80;

std::string seconds(int64_t ns) { return fmt::format("{:.1f} s", 1e-9 * static_cast<double>(ns)); }

std::string name_of(const StageStatistics& stage) {
  if (stage.arguments.empty()) return stage.name;
  const bool cut = stage.arguments.size() > kMostArgumentBytes;
  return fmt::format("{} ({}{})", stage.name, stage.arguments.substr(0, kMostArgumentBytes), cut ? "…" : "");
}

std::string elements_text(uint64_t elements) {
  return elements == 0 ? "" : fmt::format(", {} elements into its block", elements);
}

std::string running_text(const SegmentState::Body& body) {
  return fmt::format("{}, which has been running for {}{}", name_of(*body.map), seconds(body.ns),
                     elements_text(body.elements));
}

std::string place_text(const WatchedFileState& file) {
  switch (file.doing) {
    case WatchedFileState::Doing::kOpening: return fmt::format("opening {}", file.path);
    case WatchedFileState::Doing::kReading:
      return fmt::format("reading bytes {} to {} of {}", file.begin, file.end, file.path);
    case WatchedFileState::Doing::kNothing: break;
  }
  return fmt::format("{}, byte {}", file.path, file.begin);
}

const SegmentState::Body* longest(const std::vector<SegmentState::Body>& bodies) {
  const auto found =
      std::max_element(bodies.begin(), bodies.end(), [](const auto& a, const auto& b) { return a.ns < b.ns; });
  return found == bodies.end() ? nullptr : &*found;
}

// What runs longest anywhere: it may hold the worker that others need.
std::optional<SegmentState::Body> longest_anywhere(const StalledPipeline& pipeline) {
  std::vector<SegmentState::Body> running;
  for (const SegmentStates& segment : pipeline.segments) {
    for (const SegmentState& state : segment.states) {
      running.insert(running.end(), state.bodies.begin(), state.bodies.end());
      if (state.chain == Chain::kRunning) {
        running.push_back({.map = state.stage, .ns = state.chain_ns, .elements = state.elements});
      }
    }
  }
  const SegmentState::Body* found = longest(running);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

std::string storage_text(const StalledPipeline& pipeline) {
  size_t in_flight = 0;
  for (const WatchedFileState& file : pipeline.files) {
    if (file.doing != WatchedFileState::Doing::kNothing) ++in_flight;
  }
  if (in_flight == 0) return "";
  const WatchedFileState& oldest = pipeline.files.front();
  return fmt::format("the storage: {} has not been answered for {}{}", place_text(oldest), seconds(oldest.ns),
                     in_flight > 1 ? fmt::format(", nor have {} other requests", in_flight - 1) : "");
}

std::string no_worker_text(const StalledPipeline& pipeline, int segment) {
  const std::string due = fmt::format("a worker: segment {} is due and no thread has come to it", segment);
  if (const auto running = longest_anywhere(pipeline)) {
    return fmt::format("{}; what runs is {}", due, running_text(*running));
  }
  return fmt::format("{}; nothing of this pipeline runs, so the process's workers are busy elsewhere", due);
}

// After "next() waits for": what the reader of a segment waits for.
std::string cause_after(const StalledPipeline& pipeline, const SegmentStates& segment) {
  // Of lanes, those that hold their reader up.
  std::vector<const SegmentState*> empty;
  for (const SegmentState& state : segment.states) {
    if (!state.next_is_ready) empty.push_back(&state);
  }
  if (empty.empty()) {
    return fmt::format("nothing that is known: segment {} has blocks ready and its reader was not woken, a defect",
                       segment.number);
  }
  const auto any = [&](Chain chain) {
    return std::any_of(empty.begin(), empty.end(), [&](const SegmentState* state) { return state->chain == chain; });
  };
  std::vector<SegmentState::Body> running;
  bool bodies_are_due = false;
  for (const SegmentState* state : empty) {
    running.insert(running.end(), state->bodies.begin(), state->bodies.end());
    if (state->chain == Chain::kRunning) {
      running.push_back({.map = state->stage, .ns = state->chain_ns, .elements = state->elements});
    }
    if (state->bodies.empty() && state->taken > state->ready) bodies_are_due = true;
  }
  if (const SegmentState::Body* body = longest(running)) return running_text(*body);
  if (bodies_are_due || any(Chain::kDue)) return no_worker_text(pipeline, segment.number);
  if (any(Chain::kWaitsForInput)) {
    if (!segment.inputs.empty()) {
      const auto holds_up = [&](int input) {
        const auto& states = pipeline.segments[static_cast<size_t>(input)].states;
        return !std::all_of(states.begin(), states.end(), [](const auto& state) { return state.next_is_ready; });
      };
      const auto found = std::find_if(segment.inputs.begin(), segment.inputs.end(), holds_up);
      const int input = found != segment.inputs.end() ? *found : segment.inputs.front();
      return fmt::format("segment {}, which waits for {}", segment.number,
                         cause_after(pipeline, pipeline.segments[static_cast<size_t>(input)]));
    }
    if (std::string storage = storage_text(pipeline); !storage.empty()) return storage;
    return fmt::format(
        "a stage of segment {} that answered \"pending\" and was not woken: a defect of that stage or of the storage",
        segment.number);
  }
  return fmt::format("nothing that is known: segment {} neither runs nor waits, a defect", segment.number);
}

std::string chain_text(const SegmentState& state) {
  switch (state.chain) {
    case Chain::kIdle: return "chain: nobody asks for more";
    case Chain::kDue: return "chain: due, no worker has come to it yet";
    case Chain::kRunning:
      return fmt::format("chain: inside {} for {}{}", name_of(*state.stage), seconds(state.chain_ns),
                         elements_text(state.elements));
    case Chain::kWaitsForInput: return fmt::format("chain: waits for input for {}", seconds(state.chain_ns));
    case Chain::kWaitsForOutput: return fmt::format("chain: waits for a free slot for {}", seconds(state.chain_ns));
  }
  return "";
}

std::string ring_text(const SegmentState& state) {
  return fmt::format("ring: {} of {} slots taken, {} ready{}", state.taken, state.slots, state.ready,
                     state.ready > 0 && !state.next_is_ready ? ", not the next one" : "");
}

// Lanes that differ at most in how long they have been so.
bool alike(const SegmentState& a, const SegmentState& b) {
  return a.chain == b.chain && a.stage == b.stage && a.taken == b.taken && a.ready == b.ready &&
         a.next_is_ready == b.next_is_ready && a.bodies.empty() && b.bodies.empty();
}

std::string segment_text(const SegmentStates& segment) {
  std::string text = fmt::format("segment {}: [{}]", segment.number, fmt::join(segment.chain, " | "));
  if (!segment.body.empty()) text += fmt::format(" -> [{}]", fmt::join(segment.body, " + "));
  if (segment.lanes) text += fmt::format(", {} lanes", segment.states.size());
  text += "\n";
  for (size_t i = 0; i < segment.states.size();) {
    SegmentState state = segment.states[i];
    const size_t first = i++;
    for (; i < segment.states.size() && alike(state, segment.states[i]); ++i) {
      state.chain_ns = std::max(state.chain_ns, segment.states[i].chain_ns);
    }
    std::string lane;
    if (segment.lanes)
      lane = i - first > 1 ? fmt::format("lanes {}-{}: ", first, i - 1) : fmt::format("lane {}: ", first);
    text += fmt::format("  {}{}; {}\n", lane, chain_text(state), ring_text(state));
    for (const SegmentState::Body& body : state.bodies) text += fmt::format("  body: {}\n", running_text(body));
  }
  return text;
}

std::string files_text(const std::vector<WatchedFileState>& files) {
  std::string text = fmt::format("files: {} open\n", files.size());
  for (size_t i = 0; i < std::min(files.size(), kMostFiles); ++i) {
    const WatchedFileState& file = files[i];
    const bool in_flight = file.doing != WatchedFileState::Doing::kNothing;
    text += fmt::format("  {}{}\n", place_text(file),
                        in_flight ? fmt::format(", for {}", seconds(file.ns)) : ", nothing in flight");
  }
  if (files.size() > kMostFiles) text += fmt::format("  and {} more\n", files.size() - kMostFiles);
  return text;
}

}  // namespace

Stall describe_stall(const StalledPipeline& pipeline) {
  Stall stall{.seconds = pipeline.still_seconds};
  const bool is_running = pipeline.call == "next()" && !pipeline.segments.empty();
  std::string cause = is_running ? cause_after(pipeline, pipeline.segments.back()) : storage_text(pipeline);
  if (cause.empty()) cause = "nothing that is known";
  stall.cause = fmt::format("{} waits for {}", pipeline.call, cause);
  stall.report = fmt::format("nothing has moved for {:.1f} s; the caller of {} has waited for {:.1f} s{}\n",
                             pipeline.still_seconds, pipeline.call, pipeline.waiting_seconds,
                             pipeline.threads > 0 ? fmt::format(", {} threads", pipeline.threads) : "");
  for (const SegmentStates& segment : pipeline.segments) stall.report += segment_text(segment);
  stall.report += files_text(pipeline.files);
  stall.report += stall.cause + "\n";
  return stall;
}

}  // namespace millrace
