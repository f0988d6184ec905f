#include "millrace/pipeline/run/segment_state.h"

#include <algorithm>

#include "millrace/pipeline/run/segment.h"

namespace millrace {

SegmentState Segment::state() const {
  SegmentState state;
  const int64_t now = now_ns();
  state.ready = ring_.num_ready();
  for (size_t i = 0; i < ring_.num_slots(); ++i) {
    if (ring_[i].state.load() != Ring::SlotState::kFree) ++state.taken;
    const Activity::Now doing = ring_[i].activity.now();
    if (doing.stage == nullptr) continue;
    state.bodies.push_back({.map = doing.stage, .ns = now - doing.since_ns, .elements = doing.elements});
  }
  // More may be taken than now could be: blocks have become large since.
  state.slots = std::max(ring_.usable_slots(), state.taken);
  state.next_is_ready = ring_.next_is_ready();

  const Activity::Now of_poller = activity_.now();
  const int64_t waiting_since = waiting_since_ns_.load();
  if (of_poller.stage != nullptr) {
    state.chain = SegmentState::Chain::kRunning;
    state.chain_ns = now - of_poller.since_ns;
    state.stage = of_poller.stage;
    state.elements = of_poller.elements;
  } else if (waiting_since != 0 && wakes_.load() == 0) {
    state.chain = waiting_since > 0 ? SegmentState::Chain::kWaitsForInput : SegmentState::Chain::kWaitsForOutput;
    state.chain_ns = now - std::abs(waiting_since);
  } else if (wakes_.load() > 0) {
    state.chain = SegmentState::Chain::kDue;
  }
  return state;
}

uint64_t Segment::elements() const {
  uint64_t sum = activity_.elements();
  for (size_t i = 0; i < ring_.num_slots(); ++i) sum += ring_[i].activity.elements();
  return sum;
}

}  // namespace millrace
