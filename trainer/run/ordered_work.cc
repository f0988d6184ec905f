#include "millrace/trainer/run/ordered_work.h"

#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include "millrace/pipeline/run/tbb_handoff.h"

namespace millrace {

// No more pieces are under way than there are places, and they leave in order, so the place of a piece is free when the
// next one for it is read.
bool work_in_order(int threads, size_t places, const std::function<bool()>& stop, const OrderedWork& functions) {
  using tbb::filter_mode;
  bool stopped = false;
  size_t num_read = 0;
  // What a place is handed over by, from filter to filter.
  std::vector<char> marks(places);
  const auto read = [&](tbb::flow_control& control) -> size_t {
    handoff_acquire(&num_read);
    const size_t place = num_read++ % places;
    handoff_acquire(&marks[place]);
    const auto must_stop = [&] { return stop && stop(); };
    if (must_stop() || !functions.read(place)) {
      // What waits for more to read ends when it is to stop, too.
      stopped = must_stop();
      control.stop();
    }
    handoff_release(&marks[place]);
    handoff_release(&num_read);
    return place;
  };
  const auto work = [&](size_t place) {
    handoff_acquire(&marks[place]);
    functions.work(place);
    handoff_release(&marks[place]);
    return place;
  };
  const auto write = [&](size_t place) {
    handoff_acquire(&stopped);
    handoff_acquire(&marks[place]);
    functions.write(place);
    handoff_release(&marks[place]);
    handoff_release(&stopped);
  };
  tbb::task_arena arena(threads);
  arena.execute([&] {
    tbb::parallel_pipeline(places, tbb::make_filter<void, size_t>(filter_mode::serial_in_order, read) &
                                       tbb::make_filter<size_t, size_t>(filter_mode::parallel, work) &
                                       tbb::make_filter<size_t, void>(filter_mode::serial_in_order, write));
  });
  handoff_acquire(&num_read);
  handoff_acquire(&stopped);
  return !stopped;
}

}  // namespace millrace
