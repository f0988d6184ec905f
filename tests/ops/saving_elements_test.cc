// save, cache and snapshot as processes that are killed at each of their file calls, and whose disk becomes full.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/pipeline/dataset.h"
#include "tests/support/child_process.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::saving_elements_test {
namespace {

using ::testing::HasSubstr;

constexpr int kMostCalls = 100;

class SavingElementsTest : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr int64_t kOld = 1100;
  static constexpr int64_t kNew = 1500;

  SavingElementsTest() {
    EXPECT_EQ(save(kOld, "").exit_code, 0);
    old_ = test::files_below(path_);
  }
  test::ChildResult save(int64_t count, const std::string& fault, bool locks = true) const {
    test::ChildOptions options;
    if (!fault.empty()) options.environment = {"MILLRACE_FILE_FAULT=" + fault};
    if (!locks) options.environment.emplace_back("MILLRACE_LOCKS=none");
    return test::run_child({test::kSavingElements, GetParam(), path_, std::to_string(count)}, options);
  }
  // Elements in the folder, or in that of a snapshot which has so many; 0: none. All of them must be right.
  int64_t elements_of(int64_t count) const {
    int64_t found = 0;
    for (const auto& [name, bytes] : test::files_below(path_)) {
      if (!name.ends_with("description")) continue;
      const Dataset loaded = Dataset::load((std::filesystem::path(path_) / name).parent_path());
      if (loaded.cardinality().count() != count) continue;
      Pipeline pipeline = loaded.start({.threads = 1});
      while (std::optional<Batch> batch = pipeline.next()) {
        if (batch->values<int64_t>("value")[0] != found++) return -1;
      }
    }
    return found;
  }
  bool keeps_both() const { return std::string(GetParam()) == "snapshot"; }
  void put_old_back() const {
    std::filesystem::remove_all(path_);
    for (const auto& [name, bytes] : old_) {
      const std::filesystem::path file = std::filesystem::path(path_) / name;
      std::filesystem::create_directories(file.parent_path());
      test::write_file(file, bytes);
    }
  }

  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.path("saved");
  std::map<std::string, std::string> old_;
};

INSTANTIATE_TEST_SUITE_P(, SavingElementsTest, ::testing::Values("save", "cache", "snapshot"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST_P(SavingElementsTest, KilledAtAnyFileCallTheFolderHoldsAllOfTheOldOrAllOfTheNew) {
  bool had_old = false;
  bool had_new = false;
  int kills = 0;
  for (;; ++kills) {
    ASSERT_LT(kills, kMostCalls);
    SCOPED_TRACE(fmt::format("call {}", kills + 1));
    put_old_back();
    const test::ChildResult result = save(kNew, fmt::format("kill={}", kills + 1));
    const int64_t old = elements_of(kOld);
    const int64_t now = elements_of(kNew);
    EXPECT_TRUE((old == kOld && (now == 0 || keeps_both())) || (old == 0 && now == kNew)) << old << ", " << now;
    EXPECT_TRUE(now == 0 || now == kNew) << now;
    if (result.signal == 0) {
      EXPECT_EQ(now, kNew);
      break;
    }
    had_old = had_old || now == 0;
    had_new = had_new || now == kNew;
    // The next run takes what is whole, and leaves nothing of what is not.
    EXPECT_EQ(save(kNew, "").out, fmt::format("{}\n", kNew));
    EXPECT_EQ(elements_of(kNew), kNew);
    EXPECT_EQ(test::files_below(path_).size(), old_.size() * (keeps_both() ? 2 : 1));
  }
  EXPECT_GT(kills, 10);
  EXPECT_TRUE(had_old && had_new);
}

TEST_P(SavingElementsTest, AFullDiskIsAnErrorAndTheOldElementsStay) {
  int failures = 0;
  for (;; ++failures) {
    ASSERT_LT(failures, kMostCalls);
    SCOPED_TRACE(fmt::format("call {}", failures + 1));
    put_old_back();
    const test::ChildResult result = save(kNew, fmt::format("full={}", failures + 1));
    if (result.exit_code == 0) break;
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("io: "));
    EXPECT_THAT(result.err, HasSubstr("No space left on device"));
    EXPECT_THAT(result.err, HasSubstr(path_));
    EXPECT_TRUE(test::files_below(path_) == old_);
  }
  EXPECT_GT(failures, 5);
}

TEST_P(SavingElementsTest, WithoutLocksAKilledProcessIsGoneOnWith) {
  int kills = 0;
  for (int call = 1;; call += 3) {
    ASSERT_LT(call, kMostCalls);
    SCOPED_TRACE(fmt::format("call {}", call));
    put_old_back();
    const test::ChildResult result = save(kNew, fmt::format("kill={}", call), /*locks=*/false);
    EXPECT_EQ(save(kNew, "", /*locks=*/false).out, fmt::format("{}\n", kNew));
    EXPECT_EQ(elements_of(kNew), kNew);
    if (result.signal == 0) {
      EXPECT_EQ(result.exit_code, 0) << result.err;
      break;
    }
    ++kills;
  }
  EXPECT_GT(kills, 2);
}

TEST_P(SavingElementsTest, SeveralProcessesAtOnceLeaveWholeElements) {
  for (int round = 0; round < 3; ++round) {
    put_old_back();
    std::vector<std::unique_ptr<test::ChildProcess>> writers;
    for (int i = 0; i < 4; ++i) {
      writers.push_back(std::make_unique<test::ChildProcess>(
          std::vector<std::string>{test::kSavingElements, GetParam(), path_, std::to_string(kNew)}));
    }
    int wrote = 0;
    for (const auto& writer : writers) {
      const test::ChildResult result = writer->wait();
      // Only save is refused while another one writes.
      if (result.exit_code == 0) {
        EXPECT_EQ(result.out, fmt::format("{}\n", kNew));
        ++wrote;
      } else {
        EXPECT_STREQ(GetParam(), "save");
        EXPECT_THAT(result.err, HasSubstr("another process is writing elements to"));
      }
    }
    EXPECT_GT(wrote, 0);
    EXPECT_EQ(elements_of(kNew), kNew);
    EXPECT_EQ(save(kNew, "").out, fmt::format("{}\n", kNew));
    EXPECT_EQ(test::files_below(path_).size(), old_.size() * (keeps_both() ? 2 : 1));
  }
}

}  // namespace
}  // namespace millrace::saving_elements_test
