#include "millrace/trainer/run/shard_set_writer.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "tests/support/temporary_folder.h"

namespace millrace::shard_set_writer_test {
namespace {

namespace fs = std::filesystem;
using test::files_below;
using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

enum Split : size_t { kTrain, kValidation };

ShardSetOptions two_folders(int64_t records_per_shard) {
  const auto name = [](int64_t index, int64_t num_records) {
    return "dataset-" + std::to_string(index) + "-" + std::to_string(num_records) + ".tfrecord";
  };
  return {.splits = {{.folder = "train", .records_per_shard = records_per_shard, .file_name = name},
                     {.folder = "validation", .records_per_shard = records_per_shard, .file_name = name}},
          .shard_names = R"(dataset-\d+-\d+\.tfrecord(\.zst)?)"};
}

void write_set(const std::string& folder, int num_train, int num_validation) {
  ShardSetWriter writer(folder, two_folders(10));
  for (int i = 0; i < num_train; ++i) writer.write(kTrain, "train " + std::to_string(i));
  for (int i = 0; i < num_validation; ++i) writer.write(kValidation, "validation");
  writer.finish_shards();
  writer.commit({{.name = "statistics.json", .text = "{}"}, {.name = "counts.txt", .text = "12"}});
}

// Three splits, each one file that is named by what is in it, beside what else is in the folder.
ShardSetOptions files_of_folds() {
  ShardSetOptions options{.shard_names = R"((train|valid)-\d+-\d+\.tfrec)"};
  for (const std::string split : {"train-0", "valid-0", "valid-1"}) {
    options.splits.push_back({.file_name = [split](int64_t index, int64_t num_records) {
      EXPECT_EQ(index, 0);
      return split + "-" + std::to_string(num_records) + ".tfrec";
    }});
  }
  return options;
}

void write_folds(const std::string& folder, int num_train, int num_valid) {
  ShardSetWriter writer(folder, files_of_folds());
  for (int i = 0; i < num_train; ++i) writer.write(0, "train " + std::to_string(i));
  for (int i = 0; i < num_valid; ++i) writer.write(1, "valid");
  writer.finish_shards();
  EXPECT_EQ(writer.num_shards(2), 1);
  EXPECT_EQ(writer.num_records(0), num_train);
  writer.commit({{.name = "statistics.json", .text = std::to_string(num_train)}});
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : files_below(folder)) names.push_back(name);
  return names;
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
    ShardSetWriter writer(folder.path("out"), two_folders(2));
    for (int i = 0; i < 5; ++i) writer.write(kTrain, "record");
    writer.finish_shards();
    EXPECT_EQ(writer.num_shards(kTrain), 3);
    EXPECT_EQ(writer.num_records(kTrain), 5);
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

TEST(ShardSetWriter, ShardsBesideOtherFilesAreReplacedAndTheOthersStay) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("tokenizer.json")) << "{}";
  std::ofstream(folder.path("train-0-notes.txt")) << "notes";
  write_folds(folder.path(), 7, 2);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("statistics.json", "tokenizer.json", "train-0-7.tfrec",
                                                   "train-0-notes.txt", "valid-0-2.tfrec", "valid-1-0.tfrec"));
  write_folds(folder.path(), 5, 3);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("statistics.json", "tokenizer.json", "train-0-5.tfrec",
                                                   "train-0-notes.txt", "valid-0-3.tfrec", "valid-1-0.tfrec"));
  EXPECT_EQ(files_below(folder.path()).at("statistics.json"), "5");
}

TEST(ShardSetWriter, SetThatIsNotCommittedLeavesTheOldOneBesideOtherFiles) {
  const TemporaryFolder folder;
  write_folds(folder.path(), 7, 2);
  const auto before = files_below(folder.path());
  {
    ShardSetWriter writer(folder.path(), files_of_folds());
    writer.write(0, "train");
    writer.finish_shards();
  }
  EXPECT_EQ(files_below(folder.path()), before);
}

// A folder that cannot be moved: its parent may not be written to.
TEST(ShardSetWriter, SetThatCannotBePutInPlaceLeavesTheOldOne) {
  const TemporaryFolder folder;
  write_set(folder.path(), 25, 3);
  const auto before = files_below(folder.path());
  ShardSetWriter writer(folder.path(), two_folders(10));
  writer.write(kTrain, "record");
  writer.finish_shards();
  // A folder that is not empty stands where one of the new set's is put away to, and one where it is put.
  for (const char* in_the_way : {".incomplete-shards/old/train/x", ".incomplete-shards/old/counts.txt/x"}) {
    fs::create_directories(folder.path(in_the_way));
    EXPECT_THROW(writer.commit({{.name = "statistics.json", .text = "{1}"}, {.name = "counts.txt", .text = "1"}}),
                 ErrorException);
    fs::remove_all(folder.path(".incomplete-shards/old"));
    auto now = files_below(folder.path());
    std::erase_if(now, [](const auto& file) { return file.first.starts_with(".incomplete-shards/"); });
    EXPECT_EQ(now, before) << in_the_way;
  }
  writer.commit({{.name = "statistics.json", .text = "{1}"}, {.name = "counts.txt", .text = "1"}});
  EXPECT_EQ(files_below(folder.path()).at("statistics.json"), "{1}");
}

TEST(ShardSetWriter, CommitEndsTheLastShards) {
  const TemporaryFolder folder;
  {
    ShardSetWriter writer(folder.path(), two_folders(10));
    writer.write(kTrain, "record");
    writer.commit({{.name = "statistics.json", .text = "{}"}});
    EXPECT_EQ(writer.num_shards(kTrain), 1);
  }
  EXPECT_THAT(names_in(folder.path()), ElementsAre("statistics.json", "train/dataset-0-1.tfrecord"));
}

TEST(ShardSetWriter, WhatComesBesideTheShardsMeanwhileStays) {
  const TemporaryFolder folder;
  write_set(folder.path(), 5, 3);
  ShardSetWriter writer(folder.path(), two_folders(10));
  writer.write(kTrain, "record");
  std::ofstream(folder.path("train/thesis.txt")) << "years of work";
  EXPECT_THROW(writer.commit({{.name = "statistics.json", .text = "{}"}}), ErrorException);
  EXPECT_TRUE(fs::exists(folder.path("train/thesis.txt")));
  EXPECT_TRUE(fs::exists(folder.path("train/dataset-0-5.tfrecord")));
}

TEST(ShardSetWriter, PutsFilesElsewhereInPlaceWithTheSet) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& text, const std::string& second) {
    ShardSetWriter writer(folder.path("set"), files_of_folds());
    writer.add_elsewhere(folder.path("first.csv"), text);
    writer.add_elsewhere(folder.path(second), text);
    EXPECT_NE(test::read_file(folder.path("first.csv")), text);
    writer.commit({{.name = "statistics.json", .text = text}});
  };
  write("old", "second.csv");
  EXPECT_EQ(test::read_file(folder.path("first.csv")), "old");
  EXPECT_EQ(test::read_file(folder.path("second.csv")), "old");
  const auto before = files_below(folder.path(""));
  EXPECT_THROW(write("new", "none/second.csv"), ErrorException);
  EXPECT_THROW(write("new", "set"), ErrorException);
  EXPECT_TRUE(files_below(folder.path("")) == before);
  write("new", "second.csv");
  for (const char* file : {"first.csv", "second.csv", "set/statistics.json"}) {
    EXPECT_EQ(test::read_file(folder.path(file)), "new") << file;
  }
}

TEST(ShardSetWriter, LeavesTheOldSetOnlyWhereNoFileElsewhereIsNew) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& text, const std::string& lost) {
    for (const char* name : {"first", "second"}) fs::create_directory(folder.path(name));
    ShardSetWriter writer(folder.path("set"), files_of_folds());
    writer.add_elsewhere(folder.path("first/file.csv"), text);
    writer.add_elsewhere(folder.path("second/file.csv"), text);
    if (!lost.empty()) fs::remove_all(folder.path(lost));
    writer.commit({{.name = "statistics.json", .text = text}, {.name = "counts.txt", .text = text}});
  };
  write("old", "");
  const auto before = files_below(folder.path("set"));
  EXPECT_THROW(write("new", "first"), ErrorException);
  EXPECT_TRUE(files_below(folder.path("set")) == before);
  EXPECT_THROW(write("new", "second"), ErrorException);
  EXPECT_EQ(test::read_file(folder.path("first/file.csv")), "new");
  EXPECT_FALSE(fs::exists(folder.path("set/statistics.json")));
  write("newest", "");
  EXPECT_EQ(test::read_file(folder.path("set/statistics.json")), "newest");
  EXPECT_EQ(names_in(folder.path("set")).size(), before.size()) << "what was put away goes";
}

TEST(ShardSetWriter, TemporaryFilesGoWithIt) {
  const TemporaryFolder folder;
  for (const bool commits : {false, true}) {
    ShardSetWriter writer(folder.path("out"), two_folders(2));
    test::write_file(writer.temporary_path("places"), "12");
    EXPECT_EQ(test::read_file(writer.temporary_path("places")), "12");
    writer.write(kTrain, "record");
    if (commits) writer.commit({{.name = "statistics.json", .text = "{}"}});
  }
  EXPECT_THAT(names_in(folder.path("out")), ElementsAre("statistics.json", "train/dataset-0-1.tfrecord"));
  EXPECT_FALSE(fs::exists(folder.path("out/.incomplete-shards")));
}

TEST(ShardSetWriter, ShardsOfOneNameAreRefused) {
  const TemporaryFolder folder;
  ShardSetOptions options = files_of_folds();
  options.splits[1].file_name = options.splits[0].file_name;
  ShardSetWriter writer(folder.path(), options);
  EXPECT_THROW(writer.finish_shards(), ErrorException);
}

TEST(ShardSetWriter, RecordAfterTheOneFileOfASplitIsRefused) {
  const TemporaryFolder folder;
  ShardSetWriter writer(folder.path(), files_of_folds());
  writer.finish_shards();
  EXPECT_THROW(writer.write(0, "record"), ErrorException);
}

TEST(ShardSetWriter, OptionsThatCannotWorkAreRefused) {
  const TemporaryFolder folder;
  const auto message = [&](const ShardSetOptions& options) {
    try {
      ShardSetWriter writer(folder.path("out"), options);
      writer.write(0, "record");
      return std::string("no error");
    } catch (const ErrorException& e) {
      return std::string(e.what());
    }
  };
  EXPECT_THAT(message({}), HasSubstr("has no split"));
  EXPECT_THAT(message(two_folders(-1)), HasSubstr("records_per_shard is -1, must be at least 0"));
  ShardSetOptions options = two_folders(10);
  options.splits[1].file_name = nullptr;
  EXPECT_THAT(message(options), HasSubstr("no file_name"));
  for (const char* name : {"fold/train", "..", "old", "/train", ".incomplete-shards"}) {
    options = two_folders(10);
    options.splits[0].folder = name;
    EXPECT_THAT(message(options), HasSubstr(std::string("'") + name + "' is no name in a set of shards"));
  }
  options = two_folders(10);
  options.shard_names = "(";
  EXPECT_THAT(message(options), HasSubstr("shard_names is '('"));
  options.shard_names = "data.*";
  options.splits[0].file_name = [](int64_t, int64_t) { return std::string("other"); };
  EXPECT_THAT(message(options), HasSubstr("'other' is no name of a shard by 'data.*'"));
  EXPECT_FALSE(fs::exists(folder.path("out")));
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
  const ShardSetWriter first(folder.path(), two_folders(10));
  EXPECT_THAT(message_of(folder.path()), HasSubstr("another process is writing shards into"));
  EXPECT_TRUE(fs::exists(folder.path(".incomplete-shards/train")));  // not taken for leavings
}

TEST(ShardSetWriter, FileInPlaceOfTheFolderIsOneErrorThatNamesIt) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("out")) << "a file";
  EXPECT_THAT(message_of(folder.path("out")), HasSubstr(folder.path("out")));
  EXPECT_THAT(message_of(folder.path("out/below")), HasSubstr("Not a directory"));
}

}  // namespace
}  // namespace millrace::shard_set_writer_test
