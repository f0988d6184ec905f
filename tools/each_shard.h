#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace millrace {

/// Does something with every shard, `threads` of them at a time, and shows on a terminal how far it is. `body` gets the
/// shard's number and a function to tell how many of its bytes are done so far; it runs on any thread, each number
/// once, and may wait for the disk. An exception ends the work and is thrown on.
void for_each_shard(const std::vector<std::string>& paths, int threads, const std::string& doing,
                    const std::function<void(size_t shard, const std::function<void(uint64_t)>& on_progress)>& body);

}  // namespace millrace
