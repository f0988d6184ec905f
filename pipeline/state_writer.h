#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "millrace/pipeline/pipeline_state.h"

namespace millrace {

/// Writes states of a running pipeline to a file while it runs: each atomically, on a thread of its own, so that who
/// steps through the batches waits neither for bytes to be made nor for a disk. The file always holds a whole state,
/// the newest that came to the disk; a state that comes before the one ahead of it was begun replaces that one.
///
///     StateWriter writer("pipeline.state");
///     while (std::optional<Batch> batch = pipeline.next()) {
///       step(*batch);
///       if (++steps % 100 == 0) writer.write(pipeline.save());
///     }
///     writer.finish();
class StateWriter {
 public:
  explicit StateWriter(std::string path);
  /// Waits for a write that is going on; a state that was not begun is lost.
  ~StateWriter();

  /// Hands a state over. Throws when an earlier one could not be written: `kIo`, or what the watchdog threw.
  void write(PipelineState state);
  /// Waits until the last state is on the disk. Throws when it could not be written, as `write`.
  void finish();

  /// What was written, for measurements: valid after `finish`.
  struct Written {
    int64_t states = 0;
    size_t last_bytes = 0;
    std::vector<PipelineState::Part> last_parts;
    double serialize_seconds = 0;        ///< all states together
    double first_serialize_seconds = 0;  ///< with the digest of the shards
  };
  const Written& written() const { return written_; }

 private:
  void run();
  void rethrow();

  const std::string path_;
  Written written_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<PipelineState> next_;
  std::optional<PipelineState> last_;  // that was written
  bool writing_ = false;
  bool stopping_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace millrace
