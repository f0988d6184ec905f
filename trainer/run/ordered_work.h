#pragma once

#include <functional>
#include <vector>

namespace millrace {

/// What `work_in_order` does with the places of work that is under way.
struct OrderedWork {
  std::function<bool(size_t place)> read;   ///< the next piece of work into a place; false at the end. In order
  std::function<void(size_t place)> work;   ///< side by side
  std::function<void(size_t place)> write;  ///< in the order of reading
};

/// Does it with `threads` threads, the caller among them, and `places` pieces of work under way at most. `stop`
/// is asked before each piece is read, by one thread at a time, and may be null. False when it said yes: what was read
/// until then has been written. Throws what the functions throw.
bool work_in_order(int threads, size_t places, const std::function<bool()>& stop, const OrderedWork& functions);

/// The same with the memory of pieces of work, which is used again: two for each thread. What is written does not
/// depend on the number of threads.
///
///     work_in_order<Group>(threads, stop, [&](Group& group) { return rows.next(group); },
///                          [&](Group& group) { encode(group); }, [&](const Group& group) { writer.write(group); });
template <typename Work>
bool work_in_order(int threads, const std::function<bool()>& stop, const std::function<bool(Work&)>& read,
                   const std::function<void(Work&)>& work, const std::function<void(Work&)>& write) {
  std::vector<Work> places(2 * static_cast<size_t>(threads));
  return work_in_order(threads, places.size(), stop,
                       {.read = [&](size_t place) { return read(places[place]); },
                        .work = [&](size_t place) { work(places[place]); },
                        .write = [&](size_t place) { write(places[place]); }});
}

}  // namespace millrace
