#include "tests/formats/storage/remote/fetch.h"

#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "millrace/formats/storage/file_feed.h"
#include "tests/formats/storage/remote/idle_http_clock.h"

namespace millrace::test {
namespace {

RemoteOptions by_clock(std::shared_ptr<HttpClock> clock) {
  RemoteOptions options;
  options.advice = hasty().advice;
  options.engine = std::make_shared<HttpEngine>(HttpEngineOptions{.hedged_share = 0, .clock = std::move(clock)});
  return options;
}

}  // namespace

std::string content_of(size_t bytes) {
  std::mt19937_64 random(bytes);
  std::string content(bytes, '\0');
  for (char& c : content) c = static_cast<char>(random());
  return content;
}

RemoteOptions hasty() {
  return {.retries = {.first_wait = std::chrono::milliseconds(1), .longest_wait = std::chrono::milliseconds(4)},
          .advice = {.bytes = 100'000, .in_flight = 4}};
}

Fetched fetch(Storage& storage, const std::string& url) {
  WakeFlag flag;
  const auto feed = std::make_shared<FileFeed>(
      BufferPool(), FileFeedOptions{.chunk_bytes = 20'000, .most_bytes = 1'000'000}, [&] { flag.wake(); });
  feed->open(storage, url);
  feed->allow_read_ahead(true);
  Fetched fetched;
  bool is_open = false;
  for (;;) {
    FileFeed::Chunk chunk;
    is_open = is_open || feed->look() != FileFeed::Now::kBusy;
    const FileFeed::Got got = is_open ? feed->next_chunk(chunk) : FileFeed::Got::kPending;
    if (got == FileFeed::Got::kPending) {
      if (!flag.wait()) {
        fetched.error = Error{.message = "nothing came"};
        break;
      }
    } else if (got == FileFeed::Got::kBytes) {
      if (chunk.end > chunk.begin)
        fetched.bytes.append(reinterpret_cast<const char*>(chunk.buffer->data()) + chunk.begin,
                             chunk.end - chunk.begin);
    } else {
      fetched.error = feed->error();
      break;
    }
  }
  feed->close();
  return fetched;
}

TimedFetch fetch_by_clock(const std::string& url, const std::shared_ptr<ManualHttpClock>& clock) {
  const RemoteOptions options = by_clock(clock);
  RemoteStorage storage(options);
  TimedFetch result;
  std::atomic<bool> done = false;
  std::thread fetching([&] {
    result.fetched = fetch(storage, url);
    result.took = clock->now();
    done = true;
  });
  while (!done) {
    clock->turn(std::chrono::milliseconds(100));
    options.engine->look_at_clock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  fetching.join();
  return result;
}

TimedFetch fetch_by_idle_clock(const std::string& url) {
  const auto clock = std::make_shared<IdleHttpClock>();
  RemoteStorage storage(by_clock(clock));
  TimedFetch result{.fetched = fetch(storage, url)};
  result.took = clock->now();
  return result;
}

}  // namespace millrace::test
