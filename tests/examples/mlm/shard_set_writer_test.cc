#include "examples/mlm/shard_set_writer.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "examples/mlm/mlm_data.h"
#include "millrace/formats/error.h"
#include "tests/examples/mlm/preparation_text.h"

namespace millrace::shard_set_writer_test {
namespace {

namespace fs = std::filesystem;
using test::files_below;
using test::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void write_set(const std::string& folder, int num_train, int num_validation, int64_t records_per_shard = 10,
               Compression compression = Compression::kNone) {
  ShardSetWriter writer(folder, records_per_shard, compression);
  for (int i = 0; i < num_train; ++i) writer.write(Split::kTrain, "train " + std::to_string(i));
  for (int i = 0; i < num_validation; ++i) writer.write(Split::kValidation, "validation");
  writer.finish_shards();
  writer.commit({});
}

std::string message_of(const std::string& folder) {
  try {
    write_set(folder, 1, 1);
    return "no error";
  } catch (const ErrorException& e) {
    return e.what();
  }
}

TEST(ShardSetWriter, NothingIsInPlaceBeforeCommit) {
  const TemporaryFolder folder;
  {
    ShardSetWriter writer(folder.path("out"), 2);
    for (int i = 0; i < 5; ++i) writer.write(Split::kTrain, "record");
    writer.finish_shards();
    EXPECT_EQ(writer.num_shards(Split::kTrain), 3);
    EXPECT_EQ(writer.num_records(Split::kTrain), 5);
    EXPECT_FALSE(fs::exists(folder.path("out/train")));
  }
  EXPECT_FALSE(fs::exists(folder.path("out")));
}

TEST(ShardSetWriter, NewSetReplacesTheOldOneAsAWhole) {
  const TemporaryFolder folder;
  const TemporaryFolder fresh;
  write_set(folder.path(), 95, 40);
  std::ofstream(folder.path("tokenizer.json")) << "{}";
  write_set(folder.path(), 12, 3);
  write_set(fresh.path(), 12, 3);
  auto expected = files_below(fresh.path());
  expected["tokenizer.json"] = "{}";
  EXPECT_EQ(files_below(folder.path()), expected);
}

TEST(ShardSetWriter, ZstdShardsReplacePlainOnesAndAreFoundByTheTrainer) {
  const TemporaryFolder folder;
  write_set(folder.path(), 25, 3);
  const MlmShards plain = MlmShards::find(folder.path());
  write_set(folder.path(), 25, 3, 10, Compression::kZstd);
  const auto files = files_below(folder.path());
  EXPECT_TRUE(files.contains("train/dataset-2-5.tfrecord.zst"));
  EXPECT_FALSE(files.contains("train/dataset-2-5.tfrecord"));
  EXPECT_EQ(guess_compression(files.at("validation/dataset-0-3.tfrecord.zst")).compression, Compression::kZstd);
  const MlmShards found = MlmShards::find(folder.path());
  EXPECT_EQ(found.train.size(), 3U);
  EXPECT_EQ(found.train.num_records(), plain.train.num_records());
  EXPECT_EQ(found.validation->num_records(), 3U);
  write_set(folder.path(), 25, 3);
  EXPECT_EQ(MlmShards::find(folder.path()).train, plain.train);
}

TEST(ShardSetWriter, LeavingsOfAKilledRunAreClearedAway) {
  const TemporaryFolder folder;
  const TemporaryFolder fresh;
  fs::create_directories(folder.path(".incomplete-shards/train"));
  fs::create_directories(folder.path(".incomplete-shards/old/train"));
  fs::create_directories(folder.path("train"));
  std::ofstream(folder.path(".incomplete-shards/train/dataset-0-10.tfrecord.tmp-1-0")) << "half a rec";
  std::ofstream(folder.path(".incomplete-shards/old/train/dataset-77-10.tfrecord")) << "old";
  std::ofstream(folder.path("train/dataset-99-10.tfrecord")) << "whole";
  write_set(folder.path(), 12, 3);
  write_set(fresh.path(), 12, 3);
  EXPECT_EQ(files_below(folder.path()), files_below(fresh.path()));
}

TEST(ShardSetWriter, FilesThatAreNoShardsAreNotTouched) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path("train"));
  std::ofstream(folder.path("train/thesis.txt")) << "years of work";
  EXPECT_THAT(message_of(folder.path()), HasSubstr(folder.path("train/thesis.txt") + "' is in the way"));
  EXPECT_EQ(files_below(folder.path()).size(), 1U);
  fs::remove_all(folder.path("train"));
  std::ofstream(folder.path("validation")) << "a file";
  EXPECT_THAT(message_of(folder.path()), HasSubstr(folder.path("validation") + "' is in the way"));
}

TEST(ShardSetWriter, SecondWriterOfAFolderIsRefused) {
  const TemporaryFolder folder;
  const ShardSetWriter first(folder.path(), 10);
  EXPECT_THAT(message_of(folder.path()), HasSubstr("another process is writing shards into"));
  EXPECT_TRUE(fs::exists(folder.path(".incomplete-shards/train")));  // not taken for leavings
}

TEST(ShardSetWriter, FileInPlaceOfTheFolderIsOneErrorThatNamesIt) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("out")) << "a file";
  EXPECT_THAT(message_of(folder.path("out")), HasSubstr(folder.path("out")));
  EXPECT_THAT(message_of(folder.path("out/below")), HasSubstr("Not a directory"));
  EXPECT_THROW(ShardSetWriter(folder.path("x"), 0), ErrorException);
}

}  // namespace
}  // namespace millrace::shard_set_writer_test
