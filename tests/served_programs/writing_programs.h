#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/remote/folder_download.h"
#include "tests/examples/mlm/small_mlm_run.h"
#include "tests/formats/storage/remote/test_bucket.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"

namespace millrace::test {

/// A bucket that programs write into, which are run with `tmp` of `folder_` as their folder of temporary files.
class WritingPrograms : public testing::TestWithParam<TestBucket::Store> {
 protected:
  using Files = std::map<std::string, std::string>;
  static constexpr int kAnyNumber = std::numeric_limits<int>::max();

  void SetUp() override { std::filesystem::create_directory(folder_.path("tmp")); }

  // Programs find the bucket as the test does, by the environment.
  ChildResult run(const std::vector<std::string>& command, const std::string& tmp = "tmp") const {
    return run_child(command, environment(tmp));
  }
  ChildResult run_well(const std::vector<std::string>& command, const std::string& tmp = "tmp") const {
    ChildResult result = run(command, tmp);
    EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
    return result;
  }
  // `tmp`: that of another machine is another one.
  ChildOptions environment(const std::string& tmp = "tmp") const {
    std::filesystem::create_directory(folder_.path(tmp));
    return {.environment = {"TMPDIR=" + folder_.path(tmp)}};
  }
  std::vector<std::string> left_in_temporary_folder() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path("tmp"))) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
  // What is in a folder of the bucket.
  Files copy_of(const std::string& key) {
    const std::string to = folder_.path(fmt::format("copy-{}", ++num_copies_));
    download_folder(bucket_->url(key), to);
    return files_below(to);
  }
  int num_puts(const std::string& key) const {
    int count = 0;
    for (const BucketRequest& request : bucket_->requests()) count += request.method == "PUT" && request.key == key;
    return count;
  }
  std::vector<std::string> mlm_training(const std::string& out, const std::vector<std::string>& more = {}) const {
    return with_options(
        small_mlm_training(out, folder_.path(), {"--steps", "400", "--checkpoint-every", "20", "--resume", "last"}),
        more);
  }
  // Kills a run that has exchanged its folder this often and stands still at the next time, with a newer checkpoint.
  void kill_after(int exchanges, const std::vector<std::string>& command, const std::string& tmp = "tmp") {
    exchanges_left_ = exchanges;
    ChildProcess child(command, environment(tmp));
    const auto deadline = std::chrono::steady_clock::now() + ChildProcess::kLimit;
    while (child.running() && exchanges_left_ >= 0 && std::chrono::steady_clock::now() < deadline) {
      child.take_output();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const bool stands_still = exchanges_left_ < 0;
    child.signal(SIGKILL);
    const ChildResult killed = child.wait();
    if (killed.signal != SIGKILL || !stands_still) {
      throw std::runtime_error("it ended or took too long before it was to be killed: " + killed.err);
    }
    exchanges_left_ = kAnyNumber;
  }
  // But for those of TensorBoard, which each process names otherwise.
  static std::vector<std::string> names_of(const Files& files) {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : files) {
      if (!name.starts_with("tensorboard/") && !name.starts_with(".")) names.push_back(name);
    }
    return names;
  }
  void prepare_mlm() { run_well(small_mlm_preparation(folder_.path(), 100, {"--rows-per-group", "50"})); }

  const TemporaryFolder folder_;
  std::function<bool(const BucketRequest&)> is_refused_;
  std::atomic<bool> refuses_ = false;  // `is_refused_` is there
  // How often folders are exchanged before that is never answered; below 0: somebody waits for it.
  std::atomic<int> exchanges_left_ = kAnyNumber;
  std::unique_ptr<TestBucket> bucket_ = std::make_unique<TestBucket>(
      GetParam(), [this](const BucketRequest& request) { return refuses_ && is_refused_(request); },
      [this](const BucketRequest& request) {
        return request.method == "PUT" && request.key.ends_with("/COMMIT") && --exchanges_left_ < 0;
      });
  int num_copies_ = 0;
};

/// The steps of the events `report` in a run's log.jsonl, in their order.
inline std::vector<int> reported_steps(const std::string& log) {
  std::vector<int> steps;
  const std::string begin = R"({"event":"report","step":)";
  for (size_t at = log.find(begin); at != std::string::npos; at = log.find(begin, at + 1)) {
    steps.push_back(std::stoi(log.substr(at + begin.size(), 20)));
  }
  return steps;
}

}  // namespace millrace::test
