#include "tools/each_shard.h"

#include <atomic>
#include <filesystem>
#include <mutex>

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include "millrace/command_line/terminal_line.h"

namespace millrace {

void for_each_shard(const std::vector<std::string>& paths, int threads, const std::string& doing,
                    const std::function<void(size_t, const std::function<void(uint64_t)>&)>& body) {
  uint64_t num_bytes = 0;
  for (const std::string& path : paths) {
    std::error_code missing;  // whoever reads it says so
    const uint64_t size = std::filesystem::file_size(path, missing);
    if (!missing) num_bytes += size;
  }
  std::atomic<uint64_t> bytes_done{0};
  std::atomic<size_t> shards_done{0};
  std::mutex line_mutex;
  TerminalLine line;
  const auto show = [&] {
    const std::unique_lock lock(line_mutex, std::try_to_lock);
    if (!lock.owns_lock() || !line.due()) return;
    line.show(
        fmt::format("{}: {} of {} shards, {:.0f}%", doing, shards_done.load(), paths.size(),
                    num_bytes == 0 ? 0 : 100.0 * static_cast<double>(bytes_done) / static_cast<double>(num_bytes)));
  };
  // More threads than cores too: they wait for the disk.
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads));
  tbb::task_arena arena(threads);
  [&]() noexcept { arena.initialize(); }();  // as pipeline/run/worker_arena: without memory oneTBB keeps its lock
  arena.execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<size_t>(0, paths.size(), 1),
        [&](const tbb::blocked_range<size_t>& range) {
          for (size_t shard = range.begin(); shard != range.end(); ++shard) {
            uint64_t last = 0;
            body(shard, [&](uint64_t done) {
              bytes_done += done - last;
              last = done;
              show();
            });
            ++shards_done;
            show();
          }
        },
        tbb::simple_partitioner());
  });
}

}  // namespace millrace
