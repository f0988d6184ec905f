#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "millrace/formats/tfrecord/writer.h"

namespace millrace {

/// Writes a TensorBoard event file: TFRecords of `Event` messages (trainer/tensorboard/event.proto), the first of which
/// says `brain.Event:2` and the second, a `SessionLog`, with which step it starts. Its name is
/// `events.out.tfevents.SECONDS.HOST.PID.N`, after those that are in the folder, whatever the clock says, and it grows
/// in place, so that TensorBoard shows a training while it runs.
/// A run that goes on writes a file of its own into the same folder: TensorBoard then leaves out what earlier files
/// hold of the steps that are made again. The first file has its start too, since some of TensorBoard's readers pass
/// over the first one that they find. One thread.
///
///     TensorboardWriter writer("out/tensorboard");
///     writer.scalar(10, "train/loss", 6.2);
///     writer.flush();
class TensorboardWriter {
 public:
  /// Makes the folder. `step`: steps that were made before this run. Throws `kIo` naming what could not be made.
  explicit TensorboardWriter(const std::string& folder, int64_t step = 0);

  void scalar(int64_t step, const std::string& tag, double value);
  /// Of finite values: their number, range, sums, and how many lie in each of 30 equal parts of the range. Nothing is
  /// written without one.
  void histogram(int64_t step, const std::string& tag, std::span<const float> values);
  /// Makes what was written visible to readers.
  void flush() { writer_.flush(); }
  const std::string& path() const { return writer_.path(); }

 private:
  RecordWriter writer_;
};

}  // namespace millrace
