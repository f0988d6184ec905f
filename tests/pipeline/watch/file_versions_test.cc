// Files that are replaced while a pipeline runs.
#include "millrace/pipeline/watch/file_versions.h"

#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/local.h"
#include "millrace/formats/tfrecord/index/index_builder.h"
#include "millrace/formats/tfrecord/writer.h"
#include "millrace/pipeline/dataset.h"
#include "tests/support/temporary_folder.h"

namespace millrace::file_versions_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ReplacedShards : public ::testing::Test {
 protected:
  // Lines, CSV and records of one length are the same files here.
  void write_lines(const std::string& name, char value) const {
    std::string text;
    for (int i = 0; i < 9; ++i) text += fmt::format("{}\n", value);
    test::write_file(folder_.path(name), text);
  }
  void write_records(const std::string& name, char value) const {
    RecordWriter writer(folder_.path(name));
    for (int i = 0; i < 9; ++i) writer.write(std::string(1, value));
    writer.close();
  }
  Shards shards() const { return Shards::files({path_}); }

  // Two epochs of `data`, during the first of which `other` takes the place of the shard. How it ends.
  std::string replaced(const Dataset& data, StartOptions options) const {
    bool is_read = false;
    // Before `repeat`: the next epoch is opened when all of this one has gone through here.
    Pipeline pipeline = data.filter(RowPredicate{.name = "replace",
                                                 .keep =
                                                     [&](const RowView&) {
                                                       if (!is_read) std::filesystem::rename(other_, path_);
                                                       is_read = true;
                                                       return true;
                                                     }})
                            .repeat(2)
                            .start(std::move(options));
    int num_elements = 0;
    try {
      while (pipeline.next()) ++num_elements;
    } catch (const PipelineError& failed) {
      EXPECT_EQ(num_elements, 9);
      EXPECT_EQ(failed.error().code, ErrorCode::kIo);
      EXPECT_EQ(failed.error().shard, path_);
      EXPECT_THROW(save(pipeline), ErrorException) << "a state would be of the other shard";
      return failed.error().message;
    }
    return fmt::format("{} elements", num_elements);
  }
  static std::string save(const Pipeline& pipeline) { return pipeline.save().serialize(); }
  static std::string version(const std::string& path) {
    struct Opened final : OpenSink {
      void open_done(OpenResult result) noexcept override { file = std::move(result.file); }
      std::shared_ptr<File> file;
    };
    InlineExecutor executor;
    LocalStorage storage(executor);
    const auto opened = std::make_shared<Opened>();
    storage.open(path, opened);
    return opened->file->version();
  }

  test::TemporaryFolder folder_;
  const std::string path_ = folder_.path("shard");
  const std::string other_ = folder_.path("other");
};

TEST_F(ReplacedShards, AreNotReadOnInTheNextEpochByAnySource) {
  const auto expect_error = [&](const Dataset& data) {
    const std::string before = version(path_);
    const std::string after = version(other_);
    EXPECT_THAT(replaced(data, {.threads = 2}),
                AllOf(HasSubstr("when this pipeline first opened it"), HasSubstr(before), HasSubstr(after)));
  };
  const auto write_both = [&](bool records) {
    records ? write_records("shard", 'a') : write_lines("shard", 'a');
    records ? write_records("other", 'b') : write_lines("other", 'b');
  };
  write_both(true);
  expect_error(Dataset::tfrecord(shards()));
  write_both(true);
  expect_error(Dataset::tfrecord(shards(), {.damage = {.action = DamagePolicy::kSkip}}));
  write_both(false);
  expect_error(Dataset::text_lines(shards()));
  write_both(false);
  expect_error(Dataset::csv_records(shards(), {.header = false}));
  write_both(false);
  expect_error(Dataset::fixed_length_records(shards(), {.record_bytes = 2}));
}

TEST_F(ReplacedShards, AreNotReadOnUnderAWatchdogAndATrace) {
  write_records("shard", 'a');
  write_records("other", 'b');
  EXPECT_THAT(
      replaced(Dataset::tfrecord(shards()), {.threads = 2, .watchdog = 600, .trace = std::make_shared<Trace>()}),
      HasSubstr("when this pipeline first opened it"));
}

TEST_F(ReplacedShards, AreReadFromTheFileThatGlobalShuffleHasOpen) {
  write_records("shard", 'a');
  write_records("other", 'b');
  InlineExecutor executor;
  LocalStorage storage(executor);
  write_atomically(index_path(path_), build_shard_index(storage, path_).serialize());
  EXPECT_EQ(replaced(Dataset::global_shuffle(shards()), {.threads = 2}), "18 elements");
}

TEST_F(ReplacedShards, OfAnotherPipelineAreReadByIt) {
  write_records("shard", 'a');
  write_records("other", 'b');
  const Dataset data = Dataset::tfrecord(shards());
  const auto first = [](const Dataset& of) {
    Pipeline pipeline = of.start({.threads = 1});
    return std::string(pipeline.next()->values<std::string_view>("record")[0]);
  };
  EXPECT_EQ(first(data), "a");
  std::filesystem::rename(other_, path_);
  EXPECT_EQ(first(data), "b");
}

TEST(FileVersions, AreThoseOfTheFirstOpenOfEachPath) {
  FileVersions versions;
  EXPECT_EQ(versions.earlier("a", "1"), std::nullopt);
  EXPECT_EQ(versions.earlier("b", "2"), std::nullopt);
  EXPECT_EQ(versions.earlier("a", "1"), std::nullopt);
  EXPECT_EQ(versions.earlier("a", "2"), "1");
  EXPECT_EQ(versions.earlier("a", "3"), "1");
  EXPECT_EQ(versions.earlier("b", "2"), std::nullopt);
}

}  // namespace
}  // namespace millrace::file_versions_test
