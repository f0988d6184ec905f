#include "millrace/trainer/run/ordered_work.h"

#include <fmt/format.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include "millrace/formats/error.h"
#include "millrace/pipeline/run/tbb_handoff.h"
#include "millrace/pipeline/run/worker_arena.h"

namespace millrace {

// No more items are in flight than there are slots, and they leave in order, so the slot of an item is free when the
// next one for it is read.
bool work_in_order(int threads, size_t slots, const std::function<bool()>& stop, const OrderedWork& functions) {
  using tbb::filter_mode;
  if (threads < 1 || slots < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("threads are {} and slots {}, must be at least 1", threads, slots));
  }
  bool stopped = false;
  size_t num_read = 0;
  // What a slot is handed over by from filter to filter, and what is written from item to item.
  std::vector<char> slot_handoff(slots);
  const char write_handoff = 0;
  const auto read = [&](tbb::flow_control& control) -> size_t {
    const HandoffScope reading(&num_read);
    const size_t slot = num_read++ % slots;
    const HandoffScope of_slot(&slot_handoff[slot]);
    const auto must_stop = [&] { return stop && stop(); };
    if (must_stop() || !functions.read(slot)) {
      // What waits for more to read ends when it is to stop, too.
      stopped = must_stop();
      control.stop();
    }
    return slot;
  };
  const auto work = [&](size_t slot) {
    const HandoffScope of_slot(&slot_handoff[slot]);
    functions.work(slot);
    return slot;
  };
  const auto write = [&](size_t slot) {
    const HandoffScope writing(&write_handoff);
    const HandoffScope of_slot(&slot_handoff[slot]);
    functions.write(slot);
  };
  // Also after an error of a function, which other items may have been in work beside.
  const auto acquire_all = [&] {
    handoff_acquire(&num_read);
    handoff_acquire(&write_handoff);
    for (const char& slot : slot_handoff) handoff_acquire(&slot);
  };
  tbb::task_arena arena(threads);
  initialize(arena);
  try {
    arena.execute([&] {
      tbb::parallel_pipeline(slots, tbb::make_filter<void, size_t>(filter_mode::serial_in_order, read) &
                                        tbb::make_filter<size_t, size_t>(filter_mode::parallel, work) &
                                        tbb::make_filter<size_t, void>(filter_mode::serial_in_order, write));
    });
  } catch (...) {
    acquire_all();
    throw;
  }
  acquire_all();
  return !stopped;
}

}  // namespace millrace
