#include "millrace/formats/records/shards.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/local.h"
#include "tests/support/memory_storage.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::shards_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

template <typename Function>
std::string message_of(Function&& function) {
  try {
    function();
  } catch (const ErrorException& exception) {
    EXPECT_EQ(exception.error().code, ErrorCode::kInvalidArgument);
    return exception.what();
  }
  return "no error";
}

TEST(Shards, GlobIsSortedByBytes) {
  const Shards shards = Shards::glob(test::data_path("tfrecord/gzip_members_empty_*.tfrecord"));
  ASSERT_EQ(shards.size(), 3U);
  EXPECT_THAT(shards.path(0), ::testing::EndsWith("gzip_members_empty_first.tfrecord"));
  EXPECT_THAT(shards.path(1), ::testing::EndsWith("gzip_members_empty_last.tfrecord"));
  EXPECT_THAT(shards.path(2), ::testing::EndsWith("gzip_members_empty_middle.tfrecord"));
  EXPECT_EQ(shards.num_records(), std::nullopt);
}

TEST(Shards, GlobLooksIntoTheStorageItIsGiven) {
  test::MemoryStorage storage;
  storage.add("b-10.tfrecord", "");
  storage.add("b-9.tfrecord", "");
  storage.add("c.txt", "");
  const Shards shards = Shards::glob(storage, "b-*.tfrecord");
  EXPECT_THAT(shards.list(), ElementsAre(Shard{"b-10.tfrecord", {}}, Shard{"b-9.tfrecord", {}}));
}

TEST(Shards, GlobLeavesOutIndexesAndWhatIsNotFinished) {
  test::MemoryStorage storage;
  for (const char* name :
       {"data-00000-of-00002", "data-00000-of-00002.index", "data-00001-of-00002", "data-00001-of-00002.index",
        "data-00001-of-00002.tmp-4711-0", "data-00001-of-00002.index.tmp-4711-12"}) {
    storage.add(name, "");
  }
  EXPECT_THAT(Shards::glob(storage, "data-*").list(),
              ElementsAre(Shard{"data-00000-of-00002", {}}, Shard{"data-00001-of-00002", {}}));
  EXPECT_THAT(Shards::glob(storage, "data-*.index").list(),
              ElementsAre(Shard{"data-00000-of-00002.index", {}}, Shard{"data-00001-of-00002.index", {}}));
  EXPECT_THAT(message_of([&] { (void)Shards::glob(storage, "data-*.*"); }),
              HasSubstr("no file matches 'data-*.*' but 4 that are indexes of shards (NAME.index) or not finished"));

  // Names that only look alike.
  for (const char* name : {"even.tmp-1", "even.tmp-1-", "even.tmp--1", "even-1-2", "evenindex"}) storage.add(name, "");
  EXPECT_EQ(Shards::glob(storage, "even*").size(), 5U);
}

TEST(Shards, GlobOfAUrlSaysWhichAreRead) {
  EXPECT_THAT(
      message_of([] { (void)Shards::glob("az://bucket/train-*"); }),
      HasSubstr("no file matches 'az://bucket/train-*'; local files and URLs of s3, gs, http and https are read, no "
                "az://"));
  EXPECT_THAT(message_of([] { (void)Shards::glob("file:///no/such/*"); }), HasSubstr("without file://"));
  EXPECT_THAT(message_of([] { (void)Shards::glob("/no/such/a b://c"); }), Not(HasSubstr("local files")));
}

TEST(Shards, AListNamesFilesInItsOrder) {
  const test::TemporaryFolder folder;
  const std::string list = folder.path("list.txt");
  std::ofstream(list) << "b.tfrecord\r\n\n# of the second day\n/data/a[1].tfrecord\nhttps://host/a *.tfrecord";
  EXPECT_THAT(Shards::glob("@" + list).list(), ElementsAre(Shard{"b.tfrecord", {}}, Shard{"/data/a[1].tfrecord", {}},
                                                           Shard{"https://host/a *.tfrecord", {}}));
  std::ofstream(list) << "# nothing\n";
  EXPECT_THAT(message_of([&] { (void)Shards::glob("@" + list); }), HasSubstr("list.txt' names no file"));
  try {
    (void)Shards::glob("@/no/such/list");
    FAIL() << "no error";
  } catch (const ErrorException& exception) {
    EXPECT_EQ(exception.error().code, ErrorCode::kIo);
    EXPECT_THAT(exception.what(), HasSubstr("cannot read the list of shards"));
  }
}

TEST(Shards, EmptyGlobNamesThePattern) {
  EXPECT_THAT(message_of([] { (void)Shards::glob("/no/such/folder/*.tfrecord"); }),
              HasSubstr("no file matches '/no/such/folder/*.tfrecord'"));
}

TEST(Shards, OfSeveralPatternsAreThoseOfEachInTurnAndOnce) {
  const std::string folder = test::data_path("tfrecord/");
  const Shards empty = Shards::glob(folder + "gzip_members_empty_*.tfrecord");
  const Shards all = Shards::glob(folder + "*.tfrecord");
  ASSERT_GT(all.size(), empty.size());
  const Shards both = Shards::globs({folder + "gzip_members_empty_*.tfrecord", folder + "*.tfrecord"});
  EXPECT_EQ(both.size(), all.size());
  for (size_t i = 0; i < empty.size(); ++i) EXPECT_EQ(both.path(i), empty.path(i));
  EXPECT_NE(both.path(empty.size()), empty.path(0));
  EXPECT_THAT(message_of([&] {
                (void)Shards::globs({folder + "*.tfrecord", folder + "none-*"});
              }),
              HasSubstr("no file matches '" + folder + "none-*'"));
  EXPECT_THAT(message_of([] { (void)Shards::globs({}); }), HasSubstr("a list of patterns of shards is empty"));
}

TEST(Shards, AFolderIsNoPatternOfFiles) {
  for (const std::string folder : {"/proc/self", "/proc/self/"}) {
    EXPECT_THAT(message_of([&] { (void)Shards::glob(folder); }),
                HasSubstr("'" + folder + "' is a folder; for the files in it give '/proc/self/*'"));
  }
}

// Of files below a folder of its own; `/` at the end makes an empty folder.
class ShardsInFolders : public ::testing::Test {
 protected:
  void make(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      const auto place = std::filesystem::path(folder_.path(path));
      std::filesystem::create_directories(place.parent_path());
      if (!path.ends_with('/')) test::write_file(place.string(), "");
    }
  }
  // The names below the folder, in this storage and without one alike.
  std::vector<std::string> names(const std::string& pattern) {
    const Shards shards = Shards::glob(folder_.path(pattern));
    EXPECT_EQ(shards, Shards::glob(storage_, folder_.path(pattern)));
    std::vector<std::string> names;
    for (const Shard& shard : shards.list()) names.push_back(shard.path.substr(inside_.size()));
    return names;
  }
  // What the pattern is refused with, without the folder's path.
  std::string refusal(const std::string& pattern) {
    std::string message = message_of([&] { (void)Shards::glob(folder_.path(pattern)); });
    EXPECT_EQ(message, message_of([&] { (void)Shards::glob(storage_, folder_.path(pattern)); }));
    for (size_t at = 0; (at = message.find(inside_)) != std::string::npos;) message.erase(at, inside_.size());
    return message;
  }

  const test::TemporaryFolder folder_;
  const std::string inside_ = folder_.path() + "/";
  InlineExecutor executor_;
  LocalStorage storage_{executor_};
};

TEST_F(ShardsInFolders, FoldersThatMatchAreRefusedAndNamedWithThePatternOfTheirFiles) {
  make({"part/_SUCCESS", "part/date=2024-01-01/part-0", "part/date=2024-01-02/part-0"});
  const std::string message =
      "invalid_argument: 'part/*' matches folders: 'part/date=2024-01-01', 'part/date=2024-01-02'. The files in them "
      "are 'part/*/*'; to leave them out, let the pattern match files alone";
  EXPECT_EQ(refusal("part/*"), message);
  EXPECT_THAT(names("part/*/*"), ElementsAre("part/date=2024-01-01/part-0", "part/date=2024-01-02/part-0"));
  EXPECT_THAT(refusal("part/*/"), HasSubstr("The files in them are 'part/*/*'"));
  make({"part/date=2024-01-03/country=DE/part-0", "part/date=2024-01-04/part-0"});
  EXPECT_THAT(refusal("part/*"), HasSubstr("'part/date=2024-01-03' and 1 more. The files"));
  EXPECT_THAT(refusal("part/*/*"), HasSubstr("'part/*/*' matches folders: 'part/date=2024-01-03/country=DE'. The"));
}

TEST_F(ShardsInFolders, AFolderAmongFilesIsRefusedToo) {
  make({"p0.tfrecord", "more/p1.tfrecord", "p2"});
  EXPECT_THAT(refusal("*"), HasSubstr("'*' matches folders: 'more'. The files in them are '*/*'"));
  EXPECT_THAT(names("p*"), ElementsAre("p0.tfrecord", "p2"));
  EXPECT_THAT(names("*.tfrecord"), ElementsAre("p0.tfrecord"));
  EXPECT_THAT(message_of([&] {
                (void)Shards::globs({folder_.path("p*"), folder_.path("m*")});
              }),
              HasSubstr("matches folders"));
}

TEST_F(ShardsInFolders, FoldersThatHadoopAndSparkPassOverArePassedOver) {
  make({"part-0", "_SUCCESS", "_temporary/0/_temporary/part-1", ".git/config", "cache.tmp-12-3/", "day=1/_old/p",
        "day=1/p", "day=1/.cache/0/p"});
  EXPECT_THAT(names("[^d]*"), ElementsAre("_SUCCESS", "part-0"));
  EXPECT_THAT(refusal(".*"), HasSubstr("no file matches"));
  EXPECT_THAT(refusal("_t*"), HasSubstr("no file matches"));
  EXPECT_THAT(names("day=*/*"), ElementsAre("day=1/p"));
  EXPECT_THAT(refusal("*"), HasSubstr("matches folders: 'day=1'."));
  // A folder in one that is passed over, unless the pattern names that one.
  EXPECT_THAT(refusal("*/0"), HasSubstr("no file matches"));
  EXPECT_THAT(refusal("_*/0"), HasSubstr("matches folders: '_temporary/0'"));
  EXPECT_THAT(refusal("day=1/.cache/*"), HasSubstr("matches folders: 'day=1/.cache/0'"));
  // The partitions of a column `_day`.
  make({"by/_day=1/part-0"});
  EXPECT_THAT(refusal("by/*"), HasSubstr("matches folders: 'by/_day=1'"));
}

TEST_F(ShardsInFolders, DoubleStarsAreRefusedUnlessTheyAreNames) {
  make({"a/b/c/p", "a**", "ab"});
  EXPECT_THAT(refusal("a/**/p"), HasSubstr("'a/**/p': ** does not go through folders here"));
  EXPECT_THAT(refusal("**.tfrecord"), HasSubstr("** does not go through folders here"));
  EXPECT_THAT(names("a**"), ElementsAre("a**"));
  EXPECT_THAT(names("a\\**"), ElementsAre("a**"));
}

TEST(Shards, EmptyListAndEmptyPathAreRefused) {
  EXPECT_THAT(message_of([] { (void)Shards::files({}); }), HasSubstr("empty"));
  EXPECT_THAT(message_of([] { (void)Shards::files({"a", ""}); }), HasSubstr("shard 1"));
}

TEST(Shards, ListKeepsItsOrder) {
  EXPECT_THAT(Shards::files({"z", "a"}).list(), ElementsAre(Shard{"z", {}}, Shard{"a", {}}));
}

TEST(Shards, CountsComeFromNamesWhenAsked) {
  const Shards shards = Shards::files({"train/dataset-0-1000.tfrecord", "train/dataset-1-998.tfrecord"});
  const Shards counted = shards.counts_from("dataset-{index}-{count}.tfrecord");
  EXPECT_EQ(shards.num_records(), std::nullopt);  // the first list is as it was
  EXPECT_EQ(counted.count(0), 1000U);
  EXPECT_EQ(counted.count(1), 998U);
  EXPECT_EQ(counted.num_records(), 1998U);
}

TEST(Shards, StarStandsForAnythingInAPatternOfNames) {
  const Shards shards = Shards::files({"x-y-7-0012-9-8.tfrec"});
  EXPECT_EQ(shards.counts_from("*-{index}-{count}-*-8.tfrec").count(0), 12U);
  EXPECT_EQ(shards.counts_from("*-{count}.tfrec").count(0), 8U);
  EXPECT_EQ(shards.counts_from("*{count}.tfrec").count(0), 8U);
}

TEST(Shards, NameThatDoesNotMatchIsNamed) {
  const Shards shards = Shards::files({"a-1-2.tfrecord", "a-1-x.tfrecord"});
  EXPECT_THAT(message_of([&] { (void)shards.counts_from("*-{index}-{count}.tfrecord"); }),
              HasSubstr("'a-1-x.tfrecord' does not match '*-{index}-{count}.tfrecord'"));
}

TEST(Shards, CountBeyondInt64IsRefusedWithItsShard) {
  const auto counting = [](std::vector<std::string> paths) {
    return message_of([&] { (void)Shards::files(std::move(paths)).counts_from("a-{count}"); });
  };
  // Does not fit uint64 either; fits uint64 only; fits.
  EXPECT_THAT(counting({"a-99999999999999999999"}), HasSubstr("'a-99999999999999999999'"));
  EXPECT_THAT(counting({"a-18446744073709551615"}),
              HasSubstr("shard 'a-18446744073709551615' brings the number of records above 9223372036854775807"));
  EXPECT_EQ(counting({"a-9223372036854775807"}), "no error");
  // So are counts that fit one by one.
  EXPECT_THAT(counting({"a-9223372036854775807", "a-0", "a-1"}), HasSubstr("shard 'a-1' brings"));
}

TEST(Shards, PatternOfNamesNeedsOneCount) {
  const Shards shards = Shards::files({"a-1-2.tfrecord"});
  EXPECT_THAT(message_of([&] { (void)shards.counts_from("*-{index}.tfrecord"); }), HasSubstr("found it 0 times"));
  EXPECT_THAT(message_of([&] { (void)shards.counts_from("{count}{count}"); }), HasSubstr("found it 2 times"));
  EXPECT_THAT(message_of([&] { (void)shards.counts_from("{number}"); }), HasSubstr("{number}"));
}

}  // namespace
}  // namespace millrace::shards_test
