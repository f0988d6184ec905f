#include "tests/support/killed_runs.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <numeric>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "millrace/formats/random/counter_rng.h"
#include "tests/support/soak.h"
#include "tests/support/temporary_folder.h"

namespace millrace::test {

int num_kills(int usual, int in_soak) {
  return static_cast<int>(number_from_environment("MILLRACE_KILLS").value_or(soaking() ? in_soak : usual));
}

void kill_at_random_moments(const std::vector<std::string>& command, const std::function<void()>& check, int kills) {
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run_child(command).exit_code, 0);
  const auto length =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count();
  check();
  const CounterRng rng(seed_of_this_run(), operator_id("moments"));
  for (uint64_t attempt = 0; kills > 0; ++attempt) {
    ASSERT_LT(attempt, 10'000U) << "it ends before it can be killed";
    ChildProcess child(command);
    std::this_thread::sleep_for(
        std::chrono::microseconds(uniform_below(rng.bits(attempt), static_cast<uint64_t>(length))));
    child.signal(SIGKILL);
    if (child.wait().signal == SIGKILL) --kills;
    check();
    if (testing::Test::HasFailure()) return;
  }
}

int kill_at_each_call(const std::vector<std::string>& command, const std::function<void()>& check) {
  constexpr int kMostCalls = 500;
  for (int call = 1; call < kMostCalls; ++call) {
    SCOPED_TRACE(fmt::format("call {}", call));
    const ChildResult result = run_child(command, {.environment = {fmt::format("MILLRACE_FILE_FAULT=kill={}", call)}});
    check();
    if (result.exit_code == 0) return call - 1;
    EXPECT_EQ(result.signal, SIGKILL) << result.err;
    if (testing::Test::HasFailure()) return 0;
  }
  ADD_FAILURE() << "it never came to its end";
  return 0;
}

void expect_part_of_set(const std::string& folder, const std::map<std::string, std::string>& whole) {
  if (!std::filesystem::exists(folder)) return;
  auto left = files_below(folder);
  std::erase_if(left, [](const auto& file) { return file.first.starts_with(".incomplete-shards/"); });
  for (const auto& [name, bytes] : left) {
    const auto found = whole.find(name);
    EXPECT_TRUE(found != whole.end() && found->second == bytes) << name;
  }
  if (left.contains("statistics.json")) {
    EXPECT_EQ(left.size(), whole.size());
  }
}

void kill_preparations(const std::vector<std::string>& command, const std::string& folder,
                       const std::map<std::string, std::string>& whole, int kills) {
  int times = 0;
  kill_at_random_moments(
      command,
      [&] {
        expect_part_of_set(folder, whole);
        const ChildResult result = run_child(command);
        EXPECT_EQ(result.exit_code, 0) << result.err;
        EXPECT_TRUE(files_below(folder) == whole);
        EXPECT_FALSE(std::filesystem::exists(folder + "/.incomplete-shards"));
        if (times++ % 2 == 0) std::filesystem::remove_all(folder);
      },
      kills);
}

ChildResult KillHistogram::kill_until_it_ends(const KilledProgram& program, uint64_t run) {
  const CounterRng rng(seed_of_this_run(), operator_id("kills"));
  const auto num_lines = [&] { return std::ranges::count(read_file(program.log), '\n'); };
  for (uint64_t attempt = 0;; ++attempt) {
    const auto until =
        num_lines() + static_cast<int64_t>(uniform_below(rng.bits(run, attempt), static_cast<uint64_t>(length_)));
    ChildProcess child(program.command(attempt));
    if (has_enough()) return child.wait();
    while (child.running() && num_lines() < until) std::this_thread::sleep_for(std::chrono::microseconds(200));
    child.signal(SIGKILL);
    ChildResult result = child.wait();
    if (result.signal != SIGKILL) {
      add(-1);
      return result;
    }
    const std::string log = read_file(program.log);
    add(program.steps_in(log.substr(0, log.rfind('\n') + 1)));
  }
}

void KillHistogram::add(int64_t steps) {
  if (steps < 0 || steps >= length_) {
    ++after_;
  } else if (steps < first_state_) {
    ++before_;
  } else {
    ++tenths_[static_cast<size_t>(10 * steps / length_)];
  }
}

int KillHistogram::num_that_count() const { return std::accumulate(tenths_.begin(), tenths_.end(), 0); }

bool KillHistogram::has_enough() const {
  return num_that_count() >= kills_ || before_ + num_that_count() + after_ >= 10 * kills_;
}

std::string KillHistogram::to_string() const {
  return fmt::format("kills before the first state: {}; by tenth of the run: {}; after the end: {}", before_,
                     fmt::join(tenths_, " "), after_);
}

}  // namespace millrace::test
