#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "millrace/formats/elements/writer.h"
#include "millrace/formats/storage/closable_callback.h"
#include "millrace/formats/storage/local_disk.h"
#include "millrace/ops/stage.h"

namespace millrace {

/// Writes blocks to a folder of elements while the stage that gives them goes on: block by block on the output
/// executor. What waits to be written is bounded. The stage's side: one thread at a time, never blocks. Shared, since
/// what is on its way outlives the stage.
class ElementsOutput final : public std::enable_shared_from_this<ElementsOutput> {
 public:
  /// For the stage of `context`, whose waker is woken. `commit`: commits what was written, on the executor's thread,
  /// before `finished` says so.
  ElementsOutput(const StageContext& context, std::unique_ptr<ElementsWriter> writer,
                 std::function<void(ElementsWriter& written)> commit);

  /// Whether a block may be appended; if not, `wake` is called. Throws what went wrong with those before.
  bool has_room();
  void append(Block block);
  /// No more blocks follow: what there is goes to the disk.
  void finish();
  /// Whether everything is on the disk; if not, `wake` is called. Throws what went wrong.
  bool finished();
  /// The stage goes. Without a `finish` before, nothing is kept.
  void close();

 private:
  void submit(bool syncs);
  void go_on(bool syncs);
  void run();
  void run_sync();
  void done(int64_t bytes, std::shared_ptr<const Error> error);

  OutputExecutor& executor_;
  const int64_t most_bytes_;
  const bool waits_for_network_;  // then writing, too, is not taken for a stall
  const std::function<void(ElementsWriter& written)> commit_;
  ClosableCallback wake_;
  std::unique_ptr<ElementsWriter> writer_;  // of the function that runs

  std::mutex mutex_;
  std::deque<Block> blocks_;
  int64_t bytes_ = 0;     // of `blocks_`, and of the one that is being written
  bool running_ = false;  // a function is submitted
  bool finish_ = false;
  bool finished_ = false;
  bool closed_ = false;
  bool waiting_ = false;
  std::shared_ptr<const Error> error_;
};

}  // namespace millrace
