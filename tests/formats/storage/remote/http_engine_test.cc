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

// Says so when the thread that has it ends.
struct SaysThatItsThreadEnds {
  ~SaysThatItsThreadEnds() {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::fputs("its thread has ended\n", stderr);
  }
};

// The process exits while `start` runs a function that has the last reference to its engine.
template <typename Start>
[[noreturn]] void exit_while_it_ends(const Start& start) {
  std::atexit([] { std::fputs("then the process\n", stderr); });
  auto engine = std::make_shared<HttpEngine>();
  std::atomic<bool> is_last = false;
  start(*engine, [&is_last, last = engine] {
    static thread_local const SaysThatItsThreadEnds says;
    static_cast<void>(says);
    while (last.use_count() > 1) std::this_thread::yield();
    is_last = true;
  });
  engine = nullptr;
  while (!is_last) std::this_thread::yield();
  std::exit(7);
}

// OpenSSL would take away what the thread still uses.
TEST(HttpEngineDeathTest, IsWaitedForWhenTheProcessExitsWhileItEndsOnItsOwnThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_while_it_ends([](HttpEngine& engine, std::function<void()> function) {
                engine.call_after(std::chrono::nanoseconds(0), std::move(function));
              }),
              testing::ExitedWithCode(7), "its thread has ended\nthen the process");
}

TEST(HttpEngineDeathTest, IsWaitedForWhenTheProcessExitsWhileItEndsOnAThreadThatRunsAside) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_while_it_ends([](HttpEngine& engine, std::function<void()> function) {
                engine.run_aside([function = std::move(function)](const std::stop_token& /*stop*/) { function(); });
              }),
              testing::ExitedWithCode(7), "its thread has ended\nthen the process");
}

// Timers are not waited for, and what they hold goes with them.
TEST(HttpEngineDeathTest, IsWaitedForWhenTheProcessExitsAndOnlyATimerHasIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::atexit([] { std::fputs("then the process\n", stderr); });
        auto engine = std::make_shared<HttpEngine>();
        HttpEngine& running = *engine;
        running.call_after(std::chrono::minutes(1), [last = std::move(engine)] {
          static thread_local const SaysThatItsThreadEnds says;
          static_cast<void>(says);
        });
        std::exit(7);
      },
      testing::ExitedWithCode(7), "its thread has ended\nthen the process");
}

TEST(HttpEngineDeathTest, EndsWithTheProcessThoughATimerSetsItselfAgain) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        static HttpEngine engine;
        static std::function<void()> again;
        again = [] { engine.call_after(std::chrono::minutes(1), again); };
        again();
        std::exit(7);
      },
      testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace millrace::http_engine_test
