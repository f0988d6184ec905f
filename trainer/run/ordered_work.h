#pragma once

#include <algorithm>
#include <functional>
#include <vector>

namespace millrace {

/// What `work_in_order` does with the slots of work that is in flight.
struct OrderedWork {
  std::function<bool(size_t slot)> read;   ///< the next item into a slot; false at the end. In order
  std::function<void(size_t slot)> work;   ///< side by side
  std::function<void(size_t slot)> write;  ///< in the order of reading
};

/// Does it with `threads` threads, the caller among them, and `slots` items in flight at most, both at least 1. `stop`
/// is asked before each item is read, by one thread at a time, and may be null. False when it said yes: what was read
/// until then has been written. Throws what the functions throw, `kInvalidArgument` for fewer than 1.
bool work_in_order(int threads, size_t slots, const std::function<bool()>& stop, const OrderedWork& functions);

/// The same with the memory of items, which is used again: two for each thread. What is written does not
/// depend on the number of threads.
///
///     work_in_order<Group>(threads, stop, [&](Group& group) { return rows.next(group); },
///                          [&](Group& group) { encode(group); }, [&](const Group& group) { writer.write(group); });
template <typename Work>
bool work_in_order(int threads, const std::function<bool()>& stop, const std::function<bool(Work&)>& read,
                   const std::function<void(Work&)>& work, const std::function<void(Work&)>& write) {
  std::vector<Work> slots(2 * static_cast<size_t>(std::max(threads, 0)));
  return work_in_order(threads, slots.size(), stop,
                       {.read = [&](size_t slot) { return read(slots[slot]); },
                        .work = [&](size_t slot) { work(slots[slot]); },
                        .write = [&](size_t slot) { write(slots[slot]); }});
}

}  // namespace millrace
