#include "millrace/formats/storage/remote/http_engine.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include <gtest/gtest.h>

namespace millrace::http_engine_test {
namespace {

void wait_until_stopped(const std::stop_token& stop) {
  while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(HttpEngine, AsksWhatRunsAsideToStopAndWaitsForIt) {
  std::atomic<int> ended = 0;
  {
    HttpEngine engine;
    for (int i = 0; i < 3; ++i) {
      engine.run_aside([&](const std::stop_token& stop) {
        wait_until_stopped(stop);
        ++ended;
      });
    }
    engine.run_aside([&](const std::stop_token& /*stop*/) { ++ended; });
  }
  EXPECT_EQ(ended, 4);
}

TEST(HttpEngine, MayEndOnAThreadThatRunsAside) {
  std::atomic<bool> gone = false;
  auto engine = std::make_shared<HttpEngine>();
  std::weak_ptr<HttpEngine> weak = engine;
  engine->run_aside([&, last = engine](const std::stop_token& /*stop*/) mutable {
    while (last.use_count() > 1) std::this_thread::yield();
    last = nullptr;
    gone = true;
  });
  engine = nullptr;
  while (!gone) std::this_thread::yield();
  EXPECT_TRUE(weak.expired());
}

TEST(HttpEngineDeathTest, WaitsForWhatRunsAsideWhenTheProcessExits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const auto engine = HttpEngine::of_process();
        engine->run_aside([](const std::stop_token& stop) {
          wait_until_stopped(stop);
          std::fputs("it has stopped\n", stderr);
        });
        std::exit(7);
      },
      testing::ExitedWithCode(7), "it has stopped");
}

}  // namespace
}  // namespace millrace::http_engine_test
