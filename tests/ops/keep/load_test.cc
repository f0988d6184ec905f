#include "millrace/ops/keep/load.h"

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/folder_lock.h"
#include "millrace/formats/storage/local.h"
#include "millrace/formats/tfrecord/writer.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/support/injecting_storage.h"
#include "tests/support/operator_chain.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::load_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::vector<std::string> rest(Pipeline& pipeline) {
  std::vector<std::string> elements;
  while (std::optional<Batch> batch = pipeline.next()) elements.push_back(test::print_element(batch->block(), 0));
  return elements;
}

std::vector<std::string> run(const Dataset& dataset, const StartOptions& options = {.threads = 2}) {
  Pipeline pipeline = dataset.start(options);
  return rest(pipeline);
}

class LoadTest : public ::testing::Test {
 protected:
  // Rows of unlike lengths, some of them many blocks' worth.
  static Dataset rows(int64_t count) {
    return Dataset::range(0, count).map({.name = "lengths",
                                         .writes = {{.name = "tokens", .dtype = DType::kInt64, .shape = {kVaries}},
                                                    {.name = "text", .dtype = DType::kBytes, .shape = {}}},
                                         .function = [](const RowView& row, RowWriter& out) {
                                           const auto value = row.value<int64_t>("value");
                                           const std::vector<int64_t> tokens(static_cast<size_t>(value % 37), value);
                                           out.set_values<int64_t>("tokens", tokens);
                                           out.set("text", std::to_string(value));
                                         }});
  }
  static std::string error_of(const std::function<void()>& function) {
    try {
      function();
    } catch (const ErrorException& exception) {
      return exception.what();
    }
    return "none";
  }

  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.path("saved");
  const WorkerLimit limit_{8};
};

TEST_F(LoadTest, GivesWhatSaveWrote) {
  const Dataset dataset = rows(5000);
  std::vector<int64_t> progress;
  const SaveReport report =
      dataset.save(path_, {.start = {.threads = 4}, .on_progress = [&](int64_t n) { progress.push_back(n); }});
  EXPECT_EQ(report.elements, 5000);
  EXPECT_GT(report.bytes, 5000u * 8);
  ASSERT_FALSE(progress.empty());
  EXPECT_EQ(progress.back(), 5000);
  const Dataset loaded = Dataset::load(path_);
  EXPECT_EQ(loaded.cardinality(), Cardinality::known(5000));
  EXPECT_TRUE(loaded.schema() == dataset.schema());
  const std::vector<std::string> expected = run(dataset);
  for (const int threads : {1, 2, 8}) EXPECT_EQ(run(loaded, {.threads = threads}), expected) << threads;
  EXPECT_THAT(run(loaded.repeat(2)), SizeIs(10'000));
}

// What older versions wrote stays readable: the folder is as the first one wrote it.
TEST_F(LoadTest, ReadsTheFirstVersion) {
  EXPECT_THAT(run(Dataset::load(test::data_path("elements"))),
              ElementsAre("id=3 tokens=[1,2,3] score=0.5 text=one",
                          "id=-1 tokens=[] score=0.25 text=", "id=2 tokens=[4] score=-1 text=three"));
}

TEST_F(LoadTest, GivesBatchesWithTheirRows) {
  const Dataset batches = Dataset::range(0, 1000).batch(7);
  EXPECT_EQ(batches.save(path_).elements, 143);
  Pipeline pipeline = Dataset::load(path_).start({.threads = 2});
  int64_t rows = 0;
  while (std::optional<Batch> batch = pipeline.next()) rows += batch->num_rows();
  EXPECT_EQ(rows, 1000);
  EXPECT_EQ(run(Dataset::load(path_)), run(batches));
}

TEST_F(LoadTest, TheFilesAreTheSameForAnyNumberOfThreads) {
  rows(3000).save(path_, {.start = {.threads = 1}});
  rows(3000).save(folder_.path("other"), {.start = {.threads = 8}});
  EXPECT_TRUE(test::files_below(path_) == test::files_below(folder_.path("other")));
}

TEST_F(LoadTest, WhatSaveLeftOutIsTold) {
  const std::string path = folder_.path("a.tfrecord");
  {
    RecordWriter writer(path);
    for (int i = 0; i < 100; ++i) writer.write(std::string(20, 'a'));
    writer.close();
  }
  std::string bytes = test::read_file(path);
  for (const size_t record : {50, 51, 99}) bytes[36 * record + 14] ^= 1;
  test::write_file(path, bytes);
  std::vector<uint64_t> records;
  const SaveReport report =
      Dataset::tfrecord(Shards::files({path}), {.damage = {.action = DamagePolicy::kSkip}})
          .save(path_,
                {.start = {.on_skip = [&](const SkippedRegion& region) { records.push_back(region.first_record); }}});
  EXPECT_EQ(report.elements, 97);
  EXPECT_EQ(report.skipped.records, 3);
  EXPECT_EQ(records, (std::vector<uint64_t>{50, 51, 99}));
}

TEST_F(LoadTest, GoesOnFromAnyElementInAnotherFolder) {
  rows(5000).save(path_);
  const Dataset dataset = Dataset::load(path_).repeat(2);
  const std::vector<std::string> all = run(dataset);
  std::vector<std::string> states;
  const std::vector<size_t> places{0, 1, 1023, 1024, 1025, 2500, 4999, 5000, 5001, 8000, 9999, 10'000};
  {
    Pipeline pipeline = dataset.start({.threads = 2});
    size_t taken = 0;
    for (const size_t place : places) {
      for (; taken < place; ++taken) ASSERT_TRUE(pipeline.next());
      states.push_back(pipeline.save().serialize());
      EXPECT_LT(states.back().size(), 512u);
    }
  }
  std::filesystem::rename(path_, folder_.path("moved"));
  const Dataset moved = Dataset::load(folder_.path("moved")).repeat(2);
  for (size_t i = 0; i < places.size(); ++i) {
    Pipeline pipeline = moved.start({.threads = 3, .state = PipelineState::parse(states[i])});
    EXPECT_EQ(rest(pipeline), std::vector<std::string>(all.begin() + static_cast<ptrdiff_t>(places[i]), all.end()))
        << places[i];
  }
  // Other elements are not gone on with.
  rows(4999).save(folder_.path("moved"), {.overwrite = true});
  const Dataset other = Dataset::load(folder_.path("moved")).repeat(2);
  EXPECT_THAT(error_of([&] { (void)other.start({.state = PipelineState::parse(states[3])}); }), HasSubstr("state"));
}

TEST_F(LoadTest, ReadsFromASlowStorageThatFailsNowAndThen) {
  rows(5000).save(path_);
  InlineExecutor executor;
  LocalStorage local(executor);
  const auto slow = std::make_shared<test::InjectingStorage>(
      local, test::InjectionOptions{
                 .max_latency = std::chrono::microseconds(300), .max_read_bytes = 10'000, .retriable_error_rate = 0.1});
  const std::vector<std::string> expected = run(rows(5000));
  EXPECT_EQ(run(Dataset::load(*slow, path_), {.threads = 2, .storage = slow}), expected);
  EXPECT_GT(slow->counts().retriable_errors, 0u);
  // What is on this machine is read here, wherever other sources read.
  const auto nowhere = std::make_shared<test::InjectingStorage>(local, test::InjectionOptions{});
  EXPECT_EQ(run(Dataset::load(path_), {.threads = 2, .storage = nowhere}), expected);
  EXPECT_EQ(nowhere->counts().reads, 0u);
}

TEST_F(LoadTest, DamageIsAnErrorInTheMiddleAndTheOtherBlocksFollow) {
  rows(5000).save(path_);
  const std::string file = path_ + "/elements-1-00000.tfrecord";
  std::string bytes = test::read_file(file);
  bytes[bytes.size() / 2] ^= 1;
  test::write_file(file, bytes);
  const std::vector<std::string> all = run(rows(5000));
  Pipeline pipeline = Dataset::load(path_).start({.threads = 2});
  std::vector<std::string> elements;
  const std::string error = error_of([&] {
    while (std::optional<Batch> batch = pipeline.next()) elements.push_back(test::print_element(batch->block(), 0));
  });
  EXPECT_THAT(error, HasSubstr("payload_crc"));
  EXPECT_THAT(error, HasSubstr("shard " + file + ", offset "));
  EXPECT_GT(elements.size(), 1000u);
  EXPECT_EQ(elements, std::vector<std::string>(all.begin(), all.begin() + static_cast<ptrdiff_t>(elements.size())));
  const std::vector<std::string> rest = run(Dataset::load(path_).ignore_errors());
  EXPECT_EQ(rest.back(), all.back());
  EXPECT_LT(rest.size(), all.size());
}

TEST_F(LoadTest, SaysWhatIsNotThere) {
  EXPECT_THAT(error_of([&] { Dataset::load(path_); }), HasSubstr("holds no elements"));
  EXPECT_THAT(error_of([&] { (void)Dataset::range(0, 3).repeat().save(path_); }),
              HasSubstr("save: the dataset has no end"));
  EXPECT_THAT(error_of([&] { (void)Dataset::range(0, 3).save(""); }), HasSubstr("directory is empty"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(LoadTest, SaveKeepsWhatIsThereUnlessItMayReplaceIt) {
  rows(100).save(path_);
  EXPECT_THAT(error_of([&] { (void)rows(7).save(path_); }), HasSubstr("holds 100 elements already, which save wrote"));
  EXPECT_THAT(run(Dataset::load(path_)), SizeIs(100));
  rows(7).save(path_, {.overwrite = true});
  EXPECT_THAT(run(Dataset::load(path_)), SizeIs(7));
}

TEST_F(LoadTest, WhatWasDescribedIsReadThoughOthersAreSavedThere) {
  rows(5000).save(path_);
  const std::vector<std::string> expected = run(rows(5000));
  {
    const Dataset described = Dataset::load(path_);
    rows(7).save(path_, {.overwrite = true});
    rows(8).save(path_, {.overwrite = true});
    EXPECT_TRUE(run(described) == expected);
    EXPECT_THAT(run(Dataset::load(path_)), SizeIs(8));
    EXPECT_THAT(test::files_below(path_), SizeIs(3));
  }
  rows(9).save(path_, {.overwrite = true});
  EXPECT_THAT(test::files_below(path_), SizeIs(2));
}

TEST_F(LoadTest, TheSameElementsSavedAgainTakeTheSameStates) {
  rows(100).save(path_);
  std::string state;
  {
    Pipeline pipeline = Dataset::load(path_).start({.threads = 2});
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(pipeline.next());
    state = pipeline.save().serialize();
  }
  rows(100).save(path_, {.overwrite = true});
  Pipeline pipeline = Dataset::load(path_).start({.threads = 2, .state = PipelineState::parse(state)});
  EXPECT_THAT(rest(pipeline), SizeIs(60));
}

TEST_F(LoadTest, ADamagedDescriptionIsOverwrittenWhenAskedFor) {
  rows(100).save(path_);
  std::string bytes = test::read_file(path_ + "/description");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  test::write_file(path_ + "/description", bytes);
  const auto files = test::files_below(path_);
  EXPECT_THAT(error_of([&] { (void)rows(7).save(path_); }),
              HasSubstr("it is damaged; overwriting the elements of the folder puts others in their place"));
  const auto stop = [](int64_t elements) {
    if (elements > 2000) throw ErrorException(ErrorCode::kInvalidArgument, "stop");
  };
  EXPECT_THAT(error_of([&] { (void)rows(100'000).save(path_, {.overwrite = true, .on_progress = stop}); }),
              HasSubstr("stop"));
  EXPECT_TRUE(test::files_below(path_) == files);
  rows(7).save(path_, {.overwrite = true});
  EXPECT_THAT(run(Dataset::load(path_)), SizeIs(7));
  EXPECT_THAT(test::files_below(path_), SizeIs(2));
  // Somebody else's file of that name stays.
  test::write_file(path_ + "/description", "of my holidays");
  EXPECT_THAT(error_of([&] { (void)rows(7).save(path_, {.overwrite = true}); }),
              HasSubstr("it is no description of elements"));
  EXPECT_EQ(test::read_file(path_ + "/description"), "of my holidays");
}

TEST_F(LoadTest, NoMemoryIsTakenForADescriptionThatIsNone) {
  rows(7).save(path_);
  std::filesystem::resize_file(path_ + "/description", uint64_t{1} << 40);
  EXPECT_THAT(error_of([&] { (void)Dataset::load(path_); }),
              HasSubstr("1099511627776 bytes are too many for a description"));
  test::write_file(path_ + "/description", "");
  std::filesystem::resize_file(path_ + "/description", uint64_t{1} << 40);
  EXPECT_THAT(error_of([&] { (void)Dataset::load(path_); }), HasSubstr("it is no description of elements"));
}

TEST_F(LoadTest, AnErrorOfTheDataLeavesWhatIsThere) {
  rows(100).save(path_);
  const auto files = test::files_below(path_);
  const Dataset failing = rows(5000).map({.name = "fails",
                                          .writes = {{.name = "more", .dtype = DType::kInt64, .shape = {}}},
                                          .function = [](const RowView& row, RowWriter& out) {
                                            if (row.value<int64_t>("value") == 4321)
                                              throw std::runtime_error("no 4321");
                                            out.set<int64_t>("more", 1);
                                          }});
  EXPECT_THAT(error_of([&] { (void)failing.save(path_, {.overwrite = true}); }), HasSubstr("no 4321"));
  EXPECT_TRUE(test::files_below(path_) == files);
  // So does a caller who wants no more.
  const auto stop = [](int64_t elements) {
    if (elements > 2000) throw ErrorException(ErrorCode::kInvalidArgument, "stop");
  };
  EXPECT_THAT(error_of([&] { (void)rows(100'000).save(path_, {.overwrite = true, .on_progress = stop}); }),
              HasSubstr("stop"));
  EXPECT_TRUE(test::files_below(path_) == files);
}

TEST_F(LoadTest, OneProcessAtATimeWritesToAFolder) {
  rows(100).save(path_);
  const FolderLock lock(path_, "writing elements to");
  EXPECT_THAT(error_of([&] { (void)rows(7).save(path_, {.overwrite = true}); }),
              HasSubstr("another process is writing elements to '" + path_ + "'"));
  EXPECT_THAT(run(Dataset::load(path_)), SizeIs(100));
}

}  // namespace
}  // namespace millrace::load_test
