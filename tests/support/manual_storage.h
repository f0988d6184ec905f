#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "millrace/formats/storage/storage.h"

namespace millrace::test {

/// A slow storage without a clock: opens and reads of another storage that are done when the test says so, on the
/// thread that says it, or at once (`AtOnce`, `release`); any thread may ask. What a reader does meanwhile then depends
/// on the test alone, not on which thread was faster. What is not answered when the storage goes is dropped, and its
/// sink never told.
class ManualStorage final : public Storage {
 public:
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  /// How many are done as soon as they are asked for, on the thread that asks; those after them wait.
  struct AtOnce {
    int64_t opens = 0;
    int64_t reads = 0;
  };

  explicit ManualStorage(Storage& wrapped) : ManualStorage(wrapped, AtOnce()) {}
  ManualStorage(Storage& wrapped, const AtOnce& at_once);
  ~ManualStorage() override;
  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override;
  [[nodiscard]] std::vector<std::string> glob(const std::string& pattern) override;

  /// What files that are opened from now on advise. Default: one read at a time.
  void advise(const ReadAdvice& advice);
  /// Does the open or read at this place of those that wait, the oldest by default, and tells its sink. False when
  /// there is none.
  bool answer_one(size_t place = 0);
  /// How many wait.
  size_t num_waiting() const;
  /// Answers until nothing waits: what an owner asks for inside an answer too.
  void answer_all();
  /// Lets every read wait that is asked for from now on.
  void hold_reads();
  /// Does what waits, and everything from now on as soon as it is asked for.
  void release();
  /// Reads so far, answered or not.
  size_t num_reads() const;

 private:
  class ManualFile;
  struct Queue;
  Storage& wrapped_;
  const std::shared_ptr<Queue> queue_;
};

}  // namespace millrace::test
