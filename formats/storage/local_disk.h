#pragma once

#include <functional>

#include "millrace/formats/storage/local.h"
#include "millrace/formats/storage/opened_files.h"

namespace millrace {

/// Runs what writes files of a pipeline's own, so that neither its workers nor its reads wait for a disk. Functions run
/// one after the other.
class OutputExecutor : public IoExecutor {
 public:
  /// The same for bringing what was written to the disk, which takes as long as the disk does: not taken for a stall.
  virtual void submit_sync(std::function<void()> function) = 0;
  /// What a long function calls now and then: it has done something.
  virtual void moved() noexcept = 0;
};

/// Where a pipeline keeps files of its own, and how it comes to them: on this machine or in buckets, as their paths
/// say, wherever its sources read.
struct LocalDisk {
  Storage& storage;
  OutputExecutor& output;
  bool ordered = true;  ///< whether elements come in their order; others are not what a later run would give
  /// Who wants to know which files nested datasets open, since elements are kept that come from them; null: nobody.
  OpenedFiles* opened = nullptr;
};

}  // namespace millrace
