// Elements that are saved, cached and kept in snapshots in a bucket.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/elements/bucket_folder.h"
#include "millrace/formats/elements/elements_folder.h"
#include "millrace/formats/elements/writer.h"
#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/pipeline/dataset.h"
#include "tests/formats/storage/remote/test_bucket.h"

namespace millrace::served_elements_test {
namespace {

using test::BucketRequest;
using test::TestBucket;
using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

std::vector<int64_t> run(const Dataset& dataset) {
  Pipeline pipeline = dataset.start({.threads = 2});
  std::vector<int64_t> values;
  while (const std::optional<Batch> batch = pipeline.next()) values.push_back(batch->values<int64_t>("value")[0]);
  return values;
}

template <typename Step>
std::string error_of(Step step) {
  try {
    step();
  } catch (const ErrorException& exception) {
    return exception.error().to_string();
  }
  return "none";
}

class ServedElements : public testing::TestWithParam<TestBucket::Store> {
 protected:
  // Shuffled numbers, each looked at by a function that counts.
  Dataset numbers(int64_t count) {
    return Dataset::range(0, count)
        .shuffle(100, {.seed = 5})
        .filter(RowPredicate{.name = "counted", .keep = [this](const RowView&) {
                               ++calls_;
                               return true;
                             }});
  }

  std::function<bool(const BucketRequest&)> is_refused_ = [](const BucketRequest&) { return false; };
  std::atomic<bool> refuses_ = false;
  TestBucket bucket_{GetParam(), [this](const BucketRequest& request) { return refuses_ && is_refused_(request); }};
  std::atomic<int64_t> calls_ = 0;
};

TEST_P(ServedElements, AreSavedAndLoaded) {
  const std::string url = bucket_.url("saved");
  const std::vector<int64_t> expected = run(numbers(30'000));
  const SaveReport report = numbers(30'000).save(url);
  EXPECT_EQ(report.elements, 30'000);
  EXPECT_THAT(bucket_.keys(), ElementsAre("saved/description", StartsWith("saved/elements-")));
  const auto first = bucket_.keys();
  EXPECT_EQ(run(Dataset::load(url)), expected);
  EXPECT_EQ(run(Dataset::load(url + "/")), expected);
  // Others take their place where that is asked for.
  EXPECT_THAT(error_of([&] { numbers(10).save(url); }), HasSubstr("holds 30000 elements already"));
  numbers(10).save(url + "/", {.overwrite = true});
  EXPECT_THAT(bucket_.keys(), ElementsAre("saved/description", StartsWith("saved/elements-")));
  EXPECT_NE(bucket_.keys(), first);
  EXPECT_EQ(run(Dataset::load(url)), run(numbers(10)));
  EXPECT_THAT(error_of([&] { (void)Dataset::load(bucket_.url("none")); }), HasSubstr("holds no elements"));
}

TEST_P(ServedElements, AreKeptByCacheAndSnapshot) {
  using Keep = std::function<Dataset(const Dataset&, const std::string&)>;
  const std::vector<std::pair<std::string, Keep>> kinds{
      {"cache", [](const Dataset& in, const std::string& url) { return in.cache({.directory = url}); }},
      {"snapshot", [](const Dataset& in, const std::string& url) { return in.snapshot(url); }}};
  for (const auto& [name, keep] : kinds) {
    const std::string url = bucket_.url(name);
    const std::vector<int64_t> expected = run(numbers(5000).cache().repeat(2));
    calls_ = 0;
    EXPECT_EQ(run(keep(numbers(5000), url).repeat(2)), expected);
    EXPECT_EQ(calls_, 5000) << name;
    EXPECT_EQ(run(keep(numbers(5000), url).repeat(2)), expected) << "of a later run";
    EXPECT_EQ(calls_, 5000) << name << " of a later run";
    // Of another dataset: written anew, by a snapshot beside it.
    EXPECT_EQ(run(keep(numbers(50), url)), run(numbers(50)));
    EXPECT_EQ(bucket_.keys(name).size(), name == "cache" ? 2 : 4);
  }
}

// Of a process that is killed, and one that is given up.
TEST_P(ServedElements, AreNotThereBeforeTheyAreWhole) {
  const std::string url = bucket_.url("kept");
  bucket_.put("kept/elements-7-00000.tfrecord", "of one that was killed");
  {
    Pipeline pipeline = numbers(100'000).cache({.directory = url}).start({.threads = 1});
    ASSERT_TRUE(pipeline.next());
    EXPECT_THAT(bucket_.keys(), Contains("kept/LOCK"));
  }
  EXPECT_THAT(bucket_.keys(), IsEmpty());
  EXPECT_EQ(run(numbers(100).cache({.directory = url})), run(numbers(100)));
  EXPECT_THAT(bucket_.keys(),
              ElementsAre("kept/description", AllOf(StartsWith("kept/elements-"), Not(HasSubstr("-7-")))));
}

TEST_P(ServedElements, AreThoseBeforeWhereTheyCannotBeWritten) {
  const std::string url = bucket_.url("saved");
  numbers(1000).save(url);
  const auto keys = bucket_.keys();
  for (const char* name : {"elements-", "description"}) {
    is_refused_ = [name](const BucketRequest& request) {
      return request.method == "PUT" && request.key.starts_with(std::string("saved/") + name);
    };
    refuses_ = true;
    EXPECT_THAT(error_of([&] { numbers(10).save(url, {.overwrite = true}); }), HasSubstr("403")) << name;
    refuses_ = false;
    EXPECT_EQ(bucket_.keys(), keys) << name;
    EXPECT_EQ(run(Dataset::load(url)), run(numbers(1000)));
  }
}

TEST_P(ServedElements, AreWrittenByOneAtATime) {
  const std::string url = bucket_.url("kept");
  const auto held = ElementsFolder::lock(url);
  EXPECT_EQ(ElementsFolder::try_lock(url), nullptr);
  EXPECT_THAT(error_of([&] { numbers(10).save(url); }), HasSubstr("another process is writing elements to it"));
  // A cache is calculated then.
  EXPECT_EQ(run(numbers(100).cache({.directory = url})), run(numbers(100)));
  EXPECT_THAT(bucket_.keys(), ElementsAre("kept/LOCK"));
}

TEST_P(ServedElements, AreReadByWhoMayNotWrite) {
  const std::string url = bucket_.url("kept");
  const std::vector<int64_t> expected = run(numbers(100).snapshot(url));
  is_refused_ = [](const BucketRequest& request) { return request.method == "PUT"; };
  refuses_ = true;
  calls_ = 0;
  EXPECT_EQ(run(numbers(100).snapshot(url)), expected);
  EXPECT_EQ(calls_, 0);
}

// One that stood still for so long that another has taken its place.
TEST_P(ServedElements, OfAWriterWhoseLockWasBrokenTakeNobodysPlace) {
  const std::string url = bucket_.url("saved");
  const auto schema =
      std::make_shared<const Schema>(std::vector<FeatureSpec>{{.name = "value", .dtype = DType::kInt64, .shape = {}}});
  auto folder = ElementsFolder::lock(url);
  auto writer = std::make_unique<ElementsWriter>(
      folder, schema, ElementsIndex::About{.written_by = "save", .generation = folder->next_generation()});
  bucket_.remove("saved/LOCK");  // as if it was broken and given back
  numbers(1000).save(url);
  const auto keys = bucket_.keys();
  EXPECT_NE(error_of([&] { (void)writer->commit(); }), "none");
  writer.reset();
  folder.reset();
  EXPECT_EQ(bucket_.keys(), keys);
  EXPECT_EQ(run(Dataset::load(url)), run(numbers(1000)));
}

// The lock is broken after it was looked at, where there were no elements, and where there were some.
TEST_P(ServedElements, AreNotWrittenOverThoseOfAWriterInBetween) {
  const auto schema =
      std::make_shared<const Schema>(std::vector<FeatureSpec>{{.name = "value", .dtype = DType::kInt64, .shape = {}}});
  const auto folder = ElementsFolder::lock(bucket_.url("saved"));
  for (const char* others : {"of another", "of a third"}) {
    is_refused_ = [this, others](const BucketRequest& request) {
      if (request.method == "PUT" && request.key == "saved/LOCK") bucket_.put("saved/description", others);
      return false;
    };
    ElementsWriter writer(folder, schema, {.written_by = "save", .generation = folder->next_generation()});
    refuses_ = true;
    EXPECT_THAT(error_of([&] { (void)writer.commit(); }),
                AnyOf(HasSubstr("there is such an object already"), HasSubstr("there is another object")));
    refuses_ = false;
    EXPECT_EQ(bucket_.content("saved/description").value_or(""), others);
  }
}

TEST_P(ServedElements, OfWritersThatWereKilledAreLeftovers) {
  const auto leftovers = [&](const std::string& key, std::chrono::seconds older_than = std::chrono::hours(1)) {
    return elements_leftovers(bucket_.url(key), older_than);
  };
  const std::string file = "/elements-1700000000000-00000.tfrecord";
  numbers(1000).save(bucket_.url("x/saved"));
  const auto whole = bucket_.keys("x/saved/");
  for (const char* folder : {"x/saved", "x/never", "x/other"}) bucket_.put(folder + file, "left");
  bucket_.put("x/other/description", "somebody's");
  bucket_.put("x/never/elements-1700000000000-0.tfrecord", "somebody's");
  bucket_.put("x/set/20240101T000000Z-01234567/kept" + file, "of a folder that is being sent");
  bucket_.put("x/copied/elements-7-00000.tfrecord", "of a local folder, which is being copied");
  {
    const auto held = ElementsFolder::lock(bucket_.url("x/never"));
    EXPECT_THAT(leftovers("x/").objects, ElementsAre(bucket_.url("x/saved" + file))) << "somebody is at the other one";
  }
  const FolderLeftovers left = leftovers("x/");
  EXPECT_THAT(left.objects, ElementsAre(bucket_.url("x/never" + file), bucket_.url("x/saved" + file)));
  EXPECT_THAT(left.unreadable, ElementsAre(bucket_.url("x/other/description")));
  EXPECT_THAT(leftovers("x/", std::chrono::hours(24 * 365 * 100)).objects, IsEmpty());
  RemoteStorage::of_process()->remove(left.objects);
  EXPECT_THAT(leftovers("x/saved/", std::chrono::seconds(0)).objects, IsEmpty());
  EXPECT_EQ(bucket_.keys("x/saved/"), whole);
}

TEST_P(ServedElements, AreNotWrittenOverFilesOfSomebodyElse) {
  bucket_.put("kept/elements-of-my-thesis.txt", "mine");
  EXPECT_THAT(error_of([&] { numbers(10).save(bucket_.url("kept")); }), HasSubstr("elements-of-my-thesis.txt"));
  EXPECT_THAT(bucket_.keys(), ElementsAre("kept/elements-of-my-thesis.txt"));
}

INSTANTIATE_TEST_SUITE_P(Stores, ServedElements, testing::Values(TestBucket::Store::kS3, TestBucket::Store::kGoogle),
                         [](const auto& test) { return to_string(test.param); });

}  // namespace
}  // namespace millrace::served_elements_test
