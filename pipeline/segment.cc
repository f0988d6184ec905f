#include "pipeline/segment.h"

#include <algorithm>
#include <utility>

#include "formats/columnar/block_builder.h"
#include "formats/error.h"
#include "pipeline/apply_map.h"
#include "pipeline/numbered_rows.h"
#include "pipeline/turn.h"

namespace millrace {
namespace {

// In a `catch`: what ends a chain.
std::shared_ptr<const Error> end_of_chain() {
  Error error = current_exception_as_error();
  error.ends_stream = true;
  return std::make_shared<const Error>(std::move(error));
}

}  // namespace

/// Takes blocks from the ring, in order of position, and gives the slots back.
class Segment::Reader final : public Stage {
 public:
  Reader(Segment& segment, uint64_t generation) : segment_(segment), generation_(generation) {}
  // What the chain still holds is dropped by its own poller.
  ~Reader() override {
    segment_.reader_starved_.store(false);
    if (!ended_ && !segment_.executor_.stopping()) segment_.request(nullptr, std::nullopt);
  }

  Poll next(Block& out) override {
    if (ended_) return Poll::kEnd;
    while (true) {
      if (!Turn::take()) return Poll::kPending;
      Slot* slot = take();
      if (slot == nullptr) return Poll::kPending;
      handoff_acquire(slot);
      const bool stale = slot->generation != generation_;
      const bool end = slot->end;
      Block block = std::move(slot->block);
      give_back(*slot);
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
    std::atomic<uint32_t>& ready =
        segment_.ready_[segment_.tail_.load(std::memory_order_relaxed) % segment_.options_.credits];
    uint32_t index = ready.load();
    if (index == 0) {
      // Say that we starve, then look again; the publisher publishes first and looks at the flag after. So does a chain
      // that waits for memory: what the reader waits for may take it.
      segment_.reader_starved_.store(true);
      if (segment_.out_of_memory_.load() && segment_.out_of_memory_.exchange(false)) segment_.wake();
      index = ready.load();
      if (index == 0) return nullptr;
      segment_.reader_starved_.store(false);
    }
    ready.store(0, std::memory_order_relaxed);
    return &segment_.slots_[index - 1];
  }

  void give_back(Slot& slot) {
    segment_.tail_.fetch_add(1);
    segment_.options_.statistics->change_queue(-1);
    slot.state.store(SlotState::kFree);
    if (segment_.out_of_credits_.exchange(false)) segment_.wake();
  }

  Segment& segment_;
  const uint64_t generation_;
  bool ended_ = false;
};

Segment::Segment(Executor& executor, Options options)
    : executor_(executor),
      options_(std::move(options)),
      num_numbered_(static_cast<size_t>(std::count_if(options_.maps.begin(), options_.maps.end(),
                                                      [](const auto& map) { return needs_numbered_rows(*map); }))),
      slots_(std::make_unique<Slot[]>(options_.credits)),
      ready_(std::make_unique<std::atomic<uint32_t>[]>(options_.credits)),
      large_(options_.large),
      body_(executor.graph(), tbb::flow::unlimited, HandedOver([this](size_t index) {
              handoff_acquire(&slots_[index]);
              run_body(index);
              return tbb::flow::continue_msg();
            })),
      poller_(executor.graph(), tbb::flow::unlimited, HandedOver([this](size_t) {
                handoff_acquire(this);
                run_node();
                handoff_release(this);
                return tbb::flow::continue_msg();
              })) {
  executor_.memory().add_waiter(*this);
}

Segment::~Segment() = default;

std::unique_ptr<Stage> Segment::open(OpenStage open, const StageContext& context) {
  reader_waker_.store(&context.waker);
  request(std::move(open), context);
  return std::make_unique<Reader>(*this, requested_generation_);
}

void Segment::request(OpenStage open, std::optional<StageContext> context) {
  {
    const std::lock_guard lock(request_mutex_);
    request_ = std::make_unique<Request>(Request{std::move(open), std::move(context), ++requested_generation_});
  }
  has_request_.store(true);
  wake();
}

void Segment::wake() noexcept {
  if (wakes_.fetch_add(1) == 0) submit();
}

// A chain that drops all it gets is woken for ever, by itself or by lanes that it opens: with one worker nobody else
// would come to run, for what a body submits goes first.
void Segment::submit() noexcept {
  if (is_fruitless()) {
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
    const uint64_t first = next_position_;
    const bool goes_on = poll_until_blocked();
    if (wake_due_since_ns_ != 0) wake_reader();
    const int64_t end = now_ns();
    const auto made = static_cast<int64_t>(next_position_ - first);
    if (options_.is_light && made > 0) is_quick_ = (end - begin) / made < options_.quick_ns;
    if (goes_on) return submit();
    if (!ended_) waiting_since_ns_.store(waiting_for_output_ ? -end : end);
    if (wakes_.fetch_sub(seen) == seen) return;
    if (is_fruitless()) return submit();
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
  std::unique_ptr<Request> request;
  {
    const std::lock_guard lock(request_mutex_);
    has_request_.store(false);
    request = std::move(request_);
  }
  if (request == nullptr) return;
  chain_.reset();
  ended_ = true;
  end_due_ = false;
  if (!request->open) return;
  generation_ = request->generation;
  iteration_ = request->context->iteration;
  next_row_ = 0;
  chain_place_ = {};
  const bool forwards_row_views = std::all_of(options_.maps.begin(), options_.maps.end(),
                                              [](const auto& map) { return map->traits().forwards_row_views; });
  StageContext context = {.pool = executor_.pool(),
                          .waker = *this,
                          .iteration = iteration_,
                          .lanes = request->context->lanes,
                          .storage = request->context->storage,
                          .shard_names = request->context->shard_names,
                          .memory = this,
                          .assembles_later = options_.assembly != nullptr,
                          .row_store = forwards_row_views ? request->context->row_store : nullptr,
                          .disk = request->context->disk};
  failure_ = nullptr;
  try {
    chain_place_ = {request->context->state, 0};
    for (size_t i = 0; i < num_numbered_; ++i) {
      const NumberedRows numbered(chain_place_.state);
      // Maps below others are one to one, so elements behind them are elements before them.
      if (i == 0) next_row_ = numbered.next_row;
      chain_place_ = numbered.input.behind(chain_place_.skip);
    }
    chain_ = open_at(request->open, context, chain_place_);
  } catch (...) {
    failure_ = end_of_chain();
  }
  ended_ = false;
}

bool Segment::is_waited_for() const noexcept {
  return reader_starved_.load() && tail_.load(std::memory_order_relaxed) == next_position_;
}

// A chain that may not go on says so first and looks once more: whoever makes room, or starves, looks at the flags
// after.
bool Segment::admit(int64_t bytes) noexcept {
  MemoryBudget& memory = executor_.memory();
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (memory.reserve(bytes)) return true;
    if (is_waited_for()) {
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
  const int64_t last = large_.bytes_of_last();
  const auto on_their_way = static_cast<int64_t>(next_position_ - tail_.load(std::memory_order_relaxed));
  const int64_t bytes = !has_body() ? std::max<int64_t>(last, 0) : (on_their_way + 1) * (last < 0 ? kUnknown : last);
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (memory.has_room(bytes) || is_waited_for()) return true;
    out_of_memory_.store(true);
    executor_.memory().expect_room();
  }
  return false;
}

bool Segment::is_in_body(uint64_t position) const noexcept {
  for (size_t i = 0; i < options_.credits; ++i) {
    if (slots_[i].state.load() == SlotState::kInBody && slots_[i].position.load() == position) return true;
  }
  return false;
}

size_t Segment::usable_slots() const noexcept {
  size_t usable = large_.usable(options_.credits);
  if (usable == options_.credits || !options_.ordered) return usable;
  const uint64_t head = tail_.load();
  if (ready_[head % options_.credits].load() != 0 || !is_in_body(head)) return usable;
  for (size_t i = 0; i < options_.credits; ++i) usable += ready_[i].load() != 0 ? 1 : 0;
  return std::min(usable, options_.credits);
}

Segment::Slot* Segment::free_slot() {
  for (int attempt = 0; attempt < 2; ++attempt) {
    const uint64_t on_their_way = next_position_ - tail_.load();
    const bool has_credit = on_their_way < usable_slots();
    limited_.store(!has_credit && on_their_way < options_.credits);
    for (size_t i = 0; has_credit && i < options_.credits; ++i) {
      Slot& slot = slots_[(next_slot_ + i) % options_.credits];
      if (slot.state.load() == SlotState::kFree) {
        next_slot_ = (next_slot_ + i + 1) % options_.credits;
        return &slot;
      }
    }
    // Say so first, then look once more: the reader frees first and looks at the flag after. So do bodies, which
    // publish before they look.
    out_of_credits_.store(true);
  }
  return nullptr;
}

// What a chain throws is an error in the place of its next element, and its end.
Poll Segment::poll_chain(Block& out) {
  if (chain_ != nullptr) {
    const Turn turn;
    try {
      const Poll poll = chain_->next(out);
      const int polls = polls_in_vain_.load(std::memory_order_relaxed);
      turn_over_ = poll == Poll::kPending && turn.is_over();
      polls_in_vain_.store(poll != Poll::kPending ? 0
                           : turn_over_           ? kBlocksPerTurn
                                                  : std::min(polls + 1, kBlocksPerTurn),
                           std::memory_order_relaxed);
      return poll;
    } catch (...) {
      failure_ = end_of_chain();
    }
    chain_.reset();
    out = Block();
  }
  if (failure_ == nullptr) return Poll::kEnd;
  out = error_block(options_.schema, executor_.pool(), std::exchange(failure_, nullptr));
  out.cursor = chain_place_;
  return Poll::kBlock;
}

// Answers true when the poller's turn is over but it could go on.
bool Segment::poll_until_blocked() {
  for (int blocks = 0; blocks < kBlocksPerTurn; ++blocks) {
    if (wake_due_since_ns_ != 0 && now_ns() - wake_due_since_ns_ >= options_.late_ns) wake_reader();
    if (has_request_.load()) take_request();
    if (ended_ && !end_due_) return false;
    // An unordered end must not overtake blocks that bodies still hold; the last body wakes us.
    if (end_due_ && !options_.ordered && in_bodies_.load() > 0) return false;
    Slot* slot = free_slot();
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
    const Poll poll = poll_chain(block);
    if (poll == Poll::kPending) {
      waiting_for_output_ = false;
      return turn_over_;
    }
    if (poll == Poll::kEnd) {
      ended_ = true;
      end_due_ = true;
      chain_.reset();
      continue;
    }
    chain_place_ = block.cursor.behind(static_cast<int64_t>(block.num_elements()));
    for (size_t i = 0; i < num_numbered_; ++i) block.cursor = NumberedRows{next_row_, block.cursor}.cursor();
    block.first_row = next_row_;
    block.iteration = iteration_;
    next_row_ += block.num_rows();
    fill(*slot, std::move(block), /*end=*/false);
  }
  return true;
}

void Segment::fill(Slot& slot, Block block, bool end) {
  slot.block = std::move(block);
  slot.end = end;
  slot.generation = generation_;
  slot.position.store(next_position_++, std::memory_order_relaxed);
  slot.state.store(SlotState::kTaken);
  options_.statistics->change_queue(1);
  raise_to(options_.statistics->queue_high_water,
           static_cast<int64_t>(next_position_ - tail_.load(std::memory_order_relaxed)));
  if (end || (options_.maps.empty() && !slot.block.assemble)) {
    if (!end) large_.made(slot.block.byte_size(), 0);
    if (!publish(slot)) return;
    if (end || !may_wake_later()) return wake_reader();
    wake_due_since_ns_ = now_ns();
    return;
  }
  if (large_.bytes_of_last() < 0) large_.expect(slot.block.byte_size());
  if (!options_.ordered) in_bodies_.fetch_add(1);
  executor_.submit(body_, static_cast<size_t>(&slot - slots_.get()), &slot);
}

void Segment::run_body(size_t index) noexcept {
  const Executor::Body mark(executor_);
  if (executor_.stopping()) return;
  slots_[index].state.store(SlotState::kInBody);
  if (tail_.load() == slots_[index].position.load(std::memory_order_relaxed)) wake_for_large();
  run_maps(slots_[index]);
  if (publish(slots_[index])) wake_starved_reader();
  if (!options_.ordered && in_bodies_.fetch_sub(1) == 1) wake();
}

void Segment::run_maps(Slot& slot) {
  const Activity::Scope doing(slot.activity);
  Block& block = slot.block;
  const int64_t started = large_.is_large() ? now_ns() : 0;
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
  large_.made(block.byte_size(), started > 0 ? now_ns() - started : 0);
}

// Whether the reader waits for this block, and is to be woken. Reader: flag, then look; here: publish, then look at the
// flag.
bool Segment::publish(Slot& slot) {
  const uint64_t position = options_.ordered ? slot.position.load(std::memory_order_relaxed) : completed_.fetch_add(1);
  const auto index = static_cast<uint32_t>(&slot - slots_.get());
  handoff_release(&slot);
  ready_[position % options_.credits].store(index + 1);
  if (tail_.load() == position) return reader_starved_.load();
  wake_for_large();
  return false;
}

// A thread that is woken for a block, and sleeps again until the next, takes the processor from those who make it.
bool Segment::may_wake_later() const noexcept {
  return options_.is_light && is_quick_ && reader_waker_.load()->wakes_thread();
}

void Segment::wake_reader() noexcept {
  wake_due_since_ns_ = 0;
  wake_starved_reader();
}

void Segment::wake_starved_reader() noexcept {
  if (reader_starved_.exchange(false)) reader_waker_.load()->wake();
}

// Where there is room for another large block, see usable_slots(), or blocks are no longer large.
void Segment::wake_for_large() noexcept {
  if (limited_.load() && out_of_credits_.load() && out_of_credits_.exchange(false)) wake();
}

}  // namespace millrace
