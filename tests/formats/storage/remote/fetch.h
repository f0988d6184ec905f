#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/formats/storage/storage.h"
#include "tests/formats/storage/remote/manual_http_clock.h"
#include "tests/support/shard_driver.h"

namespace millrace::test {

/// Bytes that depend on their number alone.
[[nodiscard]] std::string content_of(size_t bytes);

/// With waits of next to nothing between attempts, and 4 reads of 100,000 bytes in flight.
[[nodiscard]] RemoteOptions hasty();

/// Is told what opening a file and reading from it came to, one after the other; counts how often.
struct ReadAndOpenSink final : OpenSink, ReadSink {
  void open_done(OpenResult result) noexcept override {
    open = std::move(result);
    tell();
  }
  void read_done(ReadResult result) noexcept override {
    read = std::move(result);
    tell();
  }
  OpenResult open;
  ReadResult read;
  std::atomic<int> told = 0;
  WakeFlag flag;

 private:
  void tell() {
    ++told;
    flag.wake();
  }
};

struct Fetched {
  std::string bytes;
  std::optional<Error> error;
};

/// All of a file, as a reader of shards takes it.
[[nodiscard]] Fetched fetch(Storage& storage, const std::string& url);

/// The same while a clock runs, faster than that of the system, and what it shows at the end; nothing is hedged.
struct TimedFetch {
  Fetched fetched;
  std::chrono::nanoseconds took{0};
};
[[nodiscard]] TimedFetch fetch_by_clock(
    const std::string& url, const std::shared_ptr<ManualHttpClock>& clock = std::make_shared<ManualHttpClock>());
/// The same with a clock that stands while anything goes on (`IdleHttpClock`): what it shows is the waits and deadlines
/// that passed, and nothing of how fast the machine is.
[[nodiscard]] TimedFetch fetch_by_idle_clock(const std::string& url);
/// How long a server is asked that never gives anything: until the next wait would end after that, and an attempt more.
constexpr std::chrono::seconds kEarliestEnd{90};
constexpr std::chrono::seconds kLatestEnd{115};

}  // namespace millrace::test
