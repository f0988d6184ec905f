#include "millrace/pipeline/run/segment.h"

#include <algorithm>
#include <utility>

#include "millrace/pipeline/run/apply_map.h"
#include "millrace/pipeline/run/numbered_rows.h"
#include "millrace/pipeline/run/poll_budget.h"

namespace millrace {
/// Takes blocks from the ring, in order of position, and gives the slots back.
class Segment::Reader final : public Stage {
 public:
  Reader(Segment& segment, uint64_t generation) : segment_(segment), generation_(generation) {}
  // What the chain still holds is dropped by its own poller.
  ~Reader() override {
    segment_.ring_.set_starved(false);
    if (!ended_ && !segment_.executor_.stopping()) segment_.request(nullptr, std::nullopt);
  }

  Poll next(Block& out) override {
    if (ended_) return Poll::kEnd;
    while (true) {
      if (!PollBudget::consume()) return Poll::kPending;
      Slot* slot = take();
      if (slot == nullptr) return Poll::kPending;
      handoff_acquire(slot);
      const bool stale = slot->generation != generation_;
      const bool end = slot->end;
      Block block = std::move(slot->block);
      segment_.ring_.give_back(*slot);
      if (stale) continue;
      if (end) {
        ended_ = true;
        return Poll::kEnd;
      }
      if (block.num_elements() == 0) continue;  // a filter took them all
      out = std::move(block);
      return Poll::kBlock;
    }
  }

 private:
  Slot* take() {
    Ring& ring = segment_.ring_;
    Slot* slot = ring.next_ready();
    if (slot == nullptr) {
      ring.set_starved(true);
      // What the reader waits for may take memory that is not there.
      if (segment_.out_of_memory_.load() && segment_.out_of_memory_.exchange(false)) segment_.wake();
      slot = ring.next_ready();
      if (slot == nullptr) return nullptr;
      ring.set_starved(false);
    }
    ring.take();
    return slot;
  }

  Segment& segment_;
  const uint64_t generation_;
  bool ended_ = false;
};

Segment::Segment(Executor& executor, Options options)
    : executor_(executor),
      options_(std::move(options)),
      ring_({.slots = options_.credits, .large = options_.large, .ordered = options_.ordered}, *this,
            *options_.statistics),
      run_(options_.schema,
           static_cast<size_t>(std::count_if(options_.maps.begin(), options_.maps.end(),
                                             [](const auto& map) { return needs_numbered_rows(*map); }))),
      body_(executor.graph(), tbb::flow::unlimited, TbbHandoff([this](size_t index) {
              handoff_acquire(&ring_[index]);
              run_body(index);
              return tbb::flow::continue_msg();
            })),
      poller_(executor.graph(), tbb::flow::unlimited, TbbHandoff([this](size_t) {
                handoff_acquire(this);
                run_node();
                handoff_release(this);
                return tbb::flow::continue_msg();
              })) {
  executor_.memory().add_waiter(*this);
}

Segment::~Segment() = default;

std::unique_ptr<Stage> Segment::open(OpenStage open, const StageContext& context) {
  ring_.set_reader(context.waker);
  auto reader = std::make_unique<Reader>(*this, requested_generation_ + 1);
  request(std::move(open), context);
  return reader;
}

void Segment::request(OpenStage open, std::optional<StageContext> context) {
  {
    const std::lock_guard lock(request_mutex_);
    request_.emplace(std::move(open), std::move(context), ++requested_generation_);
  }
  has_request_.store(true);
  wake();
}

void Segment::wake() noexcept {
  if (wakes_.fetch_add(1) == 0) submit();
}

// A chain that drops all it gets is woken forever, by itself or by lanes that it opens: with one worker nobody else
// would come to run, for what a body submits goes first.
void Segment::submit() noexcept {
  if (run_.is_fruitless()) {
    executor_.submit_last(poller_, 0, this);
  } else {
    executor_.submit(poller_, 0, this);
  }
}

void Segment::run_node() noexcept {
  const Executor::Body mark(executor_);
  const Activity::Scope doing(activity_);
  for (uint64_t seen = wakes_.load();; seen = wakes_.load()) {
    end_wait();
    if (executor_.stopping()) return;
    const int64_t begin = options_.is_light ? now_ns() : 0;
    const uint64_t first = ring_.num_filled();
    bool goes_on = false;
    try {
      goes_on = poll_until_blocked();
    } catch (...) {
      return executor_.fail();
    }
    if (wake_due_since_ns_ != 0) wake_reader();
    const int64_t end = now_ns();
    const auto made = static_cast<int64_t>(ring_.num_filled() - first);
    if (options_.is_light && made > 0) is_quick_ = (end - begin) / made < options_.quick_ns;
    if (goes_on) return submit();
    if (!ended_) waiting_since_ns_.store(waiting_for_output_ ? -end : end);
    if (wakes_.fetch_sub(seen) == seen) return;
    if (run_.is_fruitless()) return submit();
  }
}

void Segment::end_wait() noexcept {
  if (waiting_since_ns_.load(std::memory_order_relaxed) == 0) return;
  // Taken off before it is added, so that stats() never counts it twice.
  const int64_t since = waiting_since_ns_.exchange(0);
  if (since > 0) options_.statistics->waiting_for_input_ns.fetch_add(now_ns() - since);
  if (since < 0) options_.statistics->waiting_for_output_ns.fetch_add(now_ns() + since);
}

void Segment::add_current_wait(int64_t& for_input_ns, int64_t& for_output_ns) const noexcept {
  const int64_t since = waiting_since_ns_.load();
  if (since > 0) for_input_ns += now_ns() - since;
  if (since < 0) for_output_ns += now_ns() + since;
}

void Segment::take_request() {
  std::optional<Request> request;
  {
    const std::lock_guard lock(request_mutex_);
    has_request_.store(false);
    if (!request_) return;
    request.emplace(std::move(*request_));
    request_.reset();
  }
  run_.close();
  ended_ = true;
  end_due_ = false;
  if (!request->open) return;
  generation_ = request->generation;
  StageContext context = request->context->with(*this, request->context->lanes);
  context.memory = this;
  context.assembles_later = options_.assembly != nullptr;
  for (const auto& map : options_.maps) limit_context(*map, context);
  run_.open(request->open, context);
  ended_ = false;
}

// A chain that may not go on says so first and looks once more: whoever makes room, or starves, looks at the flags
// after.
bool Segment::admit(int64_t bytes) noexcept {
  MemoryBudget& memory = executor_.memory();
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (memory.reserve(bytes)) return true;
    if (ring_.is_waited_for()) {
      memory.reserve_anyway(bytes);
      return true;
    }
    out_of_memory_.store(true);
    memory.expect_room();
  }
  return false;
}

// Whether the chain may be polled for one more block. What it will take, with its maps, is taken to be as much as the
// last one, for every block that is on its way.
bool Segment::may_poll() noexcept {
  constexpr int64_t kUnknown = 4 * kBlockBytes;
  const MemoryBudget& memory = executor_.memory();
  const int64_t last = ring_.large().bytes_of_last();
  const auto on_their_way = static_cast<int64_t>(ring_.on_their_way());
  const int64_t bytes = !has_body() ? std::max<int64_t>(last, 0) : (on_their_way + 1) * (last < 0 ? kUnknown : last);
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (memory.has_room(bytes) || ring_.is_waited_for()) return true;
    out_of_memory_.store(true);
    executor_.memory().expect_room();
  }
  return false;
}

// Answers true when the poller's turn is over but it could go on.
bool Segment::poll_until_blocked() {
  for (int blocks = 0; blocks < kBlocksPerTurn; ++blocks) {
    if (wake_due_since_ns_ != 0 && now_ns() - wake_due_since_ns_ >= options_.late_ns) wake_reader();
    if (has_request_.load()) take_request();
    if (ended_ && !end_due_) return false;
    // An unordered end must not overtake blocks that bodies still hold; the last body wakes us.
    if (end_due_ && !options_.ordered && ring_.has_bodies()) return false;
    Slot* slot = ring_.free_slot();
    if (slot == nullptr) {
      waiting_for_output_ = true;
      return false;
    }
    if (end_due_) {
      end_due_ = false;
      fill(*slot, Block(), /*end=*/true);
      continue;
    }
    if (!may_poll()) {
      waiting_for_output_ = true;
      return false;
    }
    Block block;
    const Poll poll = run_.poll(block);
    if (poll == Poll::kPending) {
      waiting_for_output_ = false;
      return run_.turn_is_over();
    }
    if (poll == Poll::kEnd) {
      ended_ = true;
      end_due_ = true;
      continue;
    }
    fill(*slot, std::move(block), /*end=*/false);
  }
  return true;
}

void Segment::fill(Slot& slot, Block block, bool end) {
  slot.block = std::move(block);
  slot.end = end;
  slot.generation = generation_;
  const bool for_body = !end && (!options_.maps.empty() || slot.block.assemble);
  ring_.fill(slot, for_body);
  if (!for_body) {
    if (!end) ring_.large().made(slot.block.byte_size(), 0);
    if (!ring_.publish(slot)) return;
    if (end || !may_wake_later()) return wake_reader();
    wake_due_since_ns_ = now_ns();
    return;
  }
  if (ring_.large().bytes_of_last() < 0) ring_.large().expect(slot.block.byte_size());
  executor_.submit(body_, ring_.index_of(slot), &slot);
}

void Segment::run_body(size_t index) noexcept {
  const Executor::Body mark(executor_);
  if (executor_.stopping()) return;
  ring_.begin_body(ring_[index]);
  try {
    run_maps(ring_[index]);
  } catch (...) {
    ring_[index].block = Block();
    executor_.fail();
  }
  if (ring_.publish(ring_[index])) ring_.wake_starved_reader();
  ring_.end_body();
}

void Segment::run_maps(Slot& slot) {
  const Activity::Scope doing(slot.activity);
  Block& block = slot.block;
  const int64_t started = ring_.large().is_large() ? now_ns() : 0;
  if (block.assemble) {
    StageStatistics& statistics = *options_.assembly;
    const int64_t begin = options_.meters_maps ? now_ns() : 0;
    if (options_.meters_maps) slot.activity.enter(&statistics, begin);
    block = assemble_block(std::move(block), options_.assembly_stage, executor_.pool());
    if (options_.meters_maps) {
      const int64_t end = now_ns();
      statistics.inclusive_ns.fetch_add(end - begin, std::memory_order_relaxed);
      statistics.trace.span(begin, end);
      statistics.add(block);
    }
  }
  for (size_t i = 0; i < options_.maps.size(); ++i) {
    if (!options_.meters_maps) {
      block = apply_map(*options_.maps[i], std::move(block), executor_.pool());
      continue;
    }
    StageStatistics& statistics = *options_.map_statistics[i];
    const int64_t begin = now_ns();
    slot.activity.enter(&statistics, begin);
    const ErrorCount taken(block);
    block = apply_map(*options_.maps[i], std::move(block), executor_.pool());
    const int64_t end = now_ns();
    statistics.inclusive_ns.fetch_add(end - begin, std::memory_order_relaxed);
    statistics.trace.span(begin, end);
    statistics.add(block);
    statistics.add_dropped(taken, block);
  }
  slot.activity.enter(nullptr, 0);
  ring_.large().made(block.byte_size(), started > 0 ? now_ns() - started : 0);
}

// A thread that is woken for a block, and sleeps again until the next, takes the processor from those who make it.
bool Segment::may_wake_later() const noexcept {
  return options_.is_light && is_quick_ && ring_.reader().wakes_thread();
}

void Segment::wake_reader() noexcept {
  wake_due_since_ns_ = 0;
  ring_.wake_starved_reader();
}

}  // namespace millrace
