#include "millrace/pipeline/run/output_thread.h"

#include <utility>

namespace millrace {

void OutputThread::submit(std::function<void()> function) {
  thread_.submit([this, function = std::move(function)] {
    function();
    moved();
  });
}

void OutputThread::submit_sync(std::function<void()> function) {
  submit([this, function = std::move(function)] {
    syncing_.store(true, std::memory_order_relaxed);
    function();
    syncing_.store(false, std::memory_order_relaxed);
  });
}

}  // namespace millrace
