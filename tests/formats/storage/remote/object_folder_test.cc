// Folders of buckets: what writes them, what finds their files, and what is left of a writer that was killed.
#include "millrace/formats/storage/remote/object_folder.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/formats/records/shards.h"
#include "millrace/formats/storage/blocking_file.h"
#include "millrace/formats/storage/remote/folder_download.h"
#include "millrace/formats/storage/remote/folder_leftovers.h"
#include "millrace/formats/storage/remote/folder_upload.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "tests/formats/storage/remote/fetch.h"
#include "tests/formats/storage/remote/test_bucket.h"
#include "tests/formats/storage/remote/upload_client.h"
#include "tests/support/temporary_folder.h"

namespace millrace::object_folder_test {
namespace {

using std::chrono::seconds;
using test::BucketRequest;
using test::content_of;
using test::error_of_step;
using test::TemporaryFolder;
using test::TestBucket;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::Pair;
using testing::StartsWith;

using Files = std::map<std::string, std::string>;

class ObjectFolder : public testing::TestWithParam<TestBucket::Store> {
 protected:
  // Half of the files from the disk.
  void write(FolderUpload& upload, const Files& files) {
    int count = 0;
    for (const auto& [name, content] : files) {
      if (++count % 2 == 0) {
        upload.put(name, content);
        continue;
      }
      const std::string path = local_.path(fmt::format("file-{}", ++num_files_));
      std::ofstream(path, std::ios::binary) << content;
      upload.add(name, path);
    }
  }
  std::string write_all(const std::string& folder, const Files& files, FolderUploadOptions options = {}) {
    FolderUpload upload(folder, options);
    write(upload, files);
    upload.commit();
    return upload.id();
  }
  // What whoever reads by the names of files finds.
  static Files read(const std::string& folder, const Files& names) {
    Files found;
    for (const auto& [name, ignored] : names) {
      if (const auto bytes = find_whole_anywhere(path_in(folder, name))) found[name] = *bytes;
    }
    return found;
  }

  const TemporaryFolder local_;
  int num_files_ = 0;
};

const Files kFirst{{"a", "first a"}, {"b/c", "first c"}, {"b/d e%?\xc3\xbc", ""}};
const Files kSecond{{"a", "second a"}, {"b/x", "second x"}};

TEST_P(ObjectFolder, IsThereAsAWholeAtItsCommit) {
  TestBucket bucket(GetParam());
  const std::string folder = bucket.url("run");
  const Files all{{"a", ""}, {"b/c", ""}, {"b/d e%?\xc3\xbc", ""}, {"b/x", ""}};
  FolderUpload upload(folder + "/");
  write(upload, kFirst);
  EXPECT_THAT(read(folder, all), IsEmpty());
  EXPECT_THAT(glob_anywhere(bucket.url("run/b/*")), IsEmpty());
  upload.commit();
  EXPECT_EQ(read(folder, all), kFirst);
  EXPECT_TRUE(exists_anywhere(bucket.url("run/a")));
  EXPECT_FALSE(exists_anywhere(bucket.url("run/z")));

  FolderUpload next(folder);
  write(next, kSecond);
  EXPECT_EQ(read(folder, all), kFirst);
  next.commit();
  EXPECT_EQ(read(folder, all), kSecond);
  const std::string id = next.id();
  EXPECT_THAT(bucket.keys(), ElementsAre("run/" + id + "/a", "run/" + id + "/b/x", "run/COMMIT")) << "no other is left";
}

TEST_P(ObjectFolder, IsFoundByPatterns) {
  TestBucket bucket(GetParam());
  const std::string id = write_all(
      bucket.url("data/set"),
      {{"train/a-1", "1"}, {"train/a-2", "2"}, {"train/b", "3"}, {"train/.c", "4"}, {"test/a-1", "5"}, {"all", "6"}});
  const auto url = [&](const std::string& name) { return bucket.url("data/set/" + id + "/" + name); };
  EXPECT_THAT(glob_anywhere(bucket.url("data/set/train/a-*")), ElementsAre(url("train/a-1"), url("train/a-2")));
  EXPECT_THAT(glob_anywhere(bucket.url("data/set/t*/a-1")), ElementsAre(url("test/a-1"), url("train/a-1")));
  EXPECT_THAT(glob_anywhere(bucket.url("data/set/train/*")),
              ElementsAre(url("train/a-1"), url("train/a-2"), url("train/b")));
  EXPECT_THAT(glob_anywhere(bucket.url("data/set/all")), ElementsAre(url("all")));
  EXPECT_THAT(glob_anywhere(bucket.url("data/set/t?st")), ElementsAre(bucket.url("data/set/test/"))) << "a folder";
  EXPECT_THAT(glob_anywhere(bucket.url("data/set/train/z*")), IsEmpty());
  EXPECT_THAT(glob_anywhere(bucket.url("data/other/*")), IsEmpty());
}

// One of each folder is asked for, and is open then.
TEST_P(ObjectFolder, IsFoundByNames) {
  TestBucket bucket(GetParam());
  const std::string id =
      write_all(bucket.url("data/set"), {{"train/a", "1"}, {"train/b", "2"}, {"test/a", "3"}, {"test/b", "4"}});
  const auto object = [&](const std::string& name) { return bucket.url("data/set/" + id + "/" + name); };
  bucket.put("plain/a", "itself");
  bucket.put("plain/b", "itself");
  const size_t before = bucket.requests().size();
  const std::vector<std::string> plain = {bucket.url("plain/a"), local_.path("a"), bucket.url("plain/b")};
  EXPECT_EQ(located(plain), plain);
  EXPECT_EQ(BlockingFile(*RemoteStorage::of_process(), plain[0]).size(), 6U);
  EXPECT_EQ(bucket.requests().size(), before + 1);
  EXPECT_THAT(located({bucket.url("data/set/train/b"), bucket.url("data/none/a"), bucket.url("data/set/test/a"),
                       plain[2], bucket.url("data/set/train/z"), bucket.url("data/set/train/a")}),
              ElementsAre(object("train/b"), bucket.url("data/none/a"), object("test/a"), plain[2],
                          bucket.url("data/set/train/z"), object("train/a")));

  std::ofstream(local_.path("list")) << bucket.url("data/set/test/b") << '\n' << bucket.url("data/set/train/a") << '\n';
  const Shards shards = Shards::glob("@" + local_.path("list"));
  EXPECT_EQ(shards, Shards::files({object("test/b"), object("train/a")}));
}

// Of folders in each other the nearest, whichever name comes first; each COMMIT is read once.
TEST_P(ObjectFolder, IsFoundByNamesBeforeOnesAroundIt) {
  TestBucket bucket(GetParam());
  const std::string outer =
      write_all(bucket.url("out"), {{"a", "1"}, {"b/a", "2"}, {"train/x", "outer"}, {"train/y", "outer"}});
  const std::string inner = write_all(bucket.url("out/train"), {{"x", "inner"}});
  const size_t before = bucket.requests().size();
  EXPECT_THAT(
      located({bucket.url("out/a"), bucket.url("out/b/a"), bucket.url("out/train/x"), bucket.url("out/train/y")}),
      ElementsAre(bucket.url("out/" + outer + "/a"), bucket.url("out/" + outer + "/b/a"),
                  bucket.url("out/train/" + inner + "/x"), bucket.url("out/train/y")));
  const auto requests = bucket.requests();
  std::map<std::string, int> commits;
  for (size_t i = before; i < requests.size(); ++i) {
    if (requests[i].key.ends_with("COMMIT")) ++commits[requests[i].key];
  }
  const auto once = Le(2);  // a slow one may be asked for a second time
  EXPECT_THAT(commits,
              ElementsAre(Pair("out/COMMIT", once), Pair("out/b/COMMIT", once), Pair("out/train/COMMIT", once)));
  EXPECT_EQ(find_whole_anywhere(bucket.url("out/train/x")), "inner");
  EXPECT_EQ(find_whole_anywhere(bucket.url("out/train/y")), std::nullopt);
}

// Files that are counted while somebody has them.
class CountingStorage final : public Storage {
 public:
  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override {
    if (lacks_files && path.ends_with("/a")) return sink->open_done({.error = {.not_found = true}});
    sink->open_done({.file = std::make_shared<Counted>(*this)});
  }
  std::vector<std::string> glob(const std::string& /*pattern*/) override { return {}; }

  bool lacks_files = false;
  size_t num_open = 0;
  size_t most_open = 0;

 private:
  struct Counted final : File {
    explicit Counted(CountingStorage& of) : storage(of) {
      storage.most_open = std::max(storage.most_open, ++storage.num_open);
    }
    ~Counted() override { --storage.num_open; }
    uint64_t size() const override { return 0; }
    std::string version() const override { return ""; }
    void read(uint64_t /*offset*/, std::span<std::byte> /*destination*/, std::shared_ptr<ReadSink> sink) override {
      sink->read_done({});
    }
    CountingStorage& storage;
  };
};

// Each has its first bytes with it, in no budget: 64 are kept, and beside them some are opened.
TEST(ObjectFolders, AreLookedForSomeAtATime) {
  CountingStorage storage;
  std::vector<std::string> paths;
  for (int i = 0; i < 1000; ++i) paths.push_back(fmt::format("s3://bucket/{}/a", i));
  EXPECT_THAT(locate_in_folders(storage, paths), testing::SizeIs(64));
  EXPECT_LE(storage.most_open, 256U + 64U);
  storage.lacks_files = true;  // and their COMMITs, of which one is read
  storage.most_open = 0;
  EXPECT_THAT(locate_in_folders(storage, paths), IsEmpty());
  EXPECT_LE(storage.most_open, 256U + 1U);
}

// What is wrong with a store, and with a name alone, is told where it is seen first.
TEST_P(ObjectFolder, IsNotTakenForMissingWhereNobodySays) {
  std::atomic<bool> refuses = false;
  TestBucket bucket(GetParam(), [&](const BucketRequest& request) { return refuses && request.key == "set/a"; });
  write_all(bucket.url("set"), {{"a", "1"}});
  refuses = true;
  EXPECT_THAT(located({bucket.url("set/a")}), ElementsAre(bucket.url("set/a"))) << "whoever opens it is told";
  EXPECT_TRUE(error_of_step([] { (void)located({"s3://bucket-alone"}); }));
}

// What others have put there is read as it stands.
TEST_P(ObjectFolder, StandsBehindObjectsThatAreThere) {
  TestBucket bucket(GetParam());
  write_all(bucket.url("set"), {{"a", "of the folder"}, {"b", "of the folder"}});
  bucket.put("set/a", "itself");
  bucket.put("other/COMMIT", "done");
  EXPECT_EQ(find_whole_anywhere(bucket.url("set/a")), "itself");
  EXPECT_THAT(glob_anywhere(bucket.url("set/a*")), ElementsAre(bucket.url("set/a")));
  EXPECT_EQ(find_whole_anywhere(bucket.url("other/a")), std::nullopt);
}

// Folders of folders above that nobody may see do not stand in the way.
TEST_P(ObjectFolder, IsFoundWhereOthersAreHidden) {
  std::atomic<bool> hides = false;
  TestBucket bucket(GetParam(), [&](const BucketRequest& request) {
    return hides && (request.key == "COMMIT" || request.key == "team/COMMIT");
  });
  write_all(bucket.url("team/run"), {{"b/c", "c"}});
  hides = true;
  EXPECT_EQ(find_whole_anywhere(bucket.url("team/run/b/c")), "c");
  EXPECT_EQ(find_whole_anywhere(bucket.url("team/other/b")), std::nullopt);
}

TEST_P(ObjectFolder, LeavesNothingWithoutACommit) {
  TestBucket bucket(GetParam());
  write_all(bucket.url("run"), kFirst);
  const auto before = bucket.keys();
  {
    FolderUpload upload(bucket.url("run"));
    write(upload, kSecond);
  }
  EXPECT_EQ(bucket.keys(), before);
  EXPECT_EQ(read(bucket.url("run"), kFirst), kFirst);
}

TEST_P(ObjectFolder, LeavesNothingAfterAnError) {
  std::atomic<bool> refuses = false;
  TestBucket bucket(GetParam(), [&](const BucketRequest& request) {
    return refuses && request.method == "PUT" && request.key.ends_with("/b/x");
  });
  write_all(bucket.url("run"), kFirst);
  const auto before = bucket.keys();
  refuses = true;
  const auto error = error_of_step([&] { write_all(bucket.url("run"), kSecond); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->to_string(), AllOf(HasSubstr("/b/x"), HasSubstr("403")));
  EXPECT_EQ(bucket.keys(), before);
}

TEST_P(ObjectFolder, LeavesNothingWhereItCannotBeCommitted) {
  std::atomic<bool> refuses = false;
  TestBucket bucket(GetParam(), [&](const BucketRequest& request) {
    return refuses && request.method == "PUT" && request.key == "run/COMMIT";
  });
  write_all(bucket.url("run"), kFirst);
  const auto before = bucket.keys();
  refuses = true;
  EXPECT_TRUE(error_of_step([&] { write_all(bucket.url("run"), kSecond); }));
  EXPECT_EQ(bucket.keys(), before);
  EXPECT_EQ(read(bucket.url("run"), kFirst), kFirst);
}

TEST_P(ObjectFolder, StaysAsItIsWhereItsManifestWouldBeTooLong) {
  TestBucket bucket(GetParam());
  write_all(bucket.url("run"), kFirst);
  const auto before = bucket.keys();
  const auto error = error_of_step([&] { write_all(bucket.url("run"), kSecond, {.most_manifest_bytes = 100}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->shard, bucket.url("run"));
  EXPECT_THAT(error->message,
              AllOf(StartsWith("2 files are too many for one folder of a bucket: its COMMIT would have "),
                    HasSubstr("and at most 100 are read")));
  EXPECT_EQ(bucket.keys(), before);
  EXPECT_EQ(read(bucket.url("run"), kFirst), kFirst);
}

// More than any other answer of a store may have.
TEST_P(ObjectFolder, IsExchangedWhereItsManifestHasMoreThan16MiB) {
  TestBucket bucket(GetParam());
  FolderManifest manifest{.id = "20261129T024500Z-5d41402a"};
  for (int i = 0; i < 20'000; ++i) {
    const std::string name = fmt::format("{:05}/{}", i, std::string(900, 'a'));
    manifest.files.push_back({.name = name, .object = path_in(manifest.id, name)});
  }
  ASSERT_GT(manifest.to_text().size(), size_t{16} << 20);
  bucket.put("run/COMMIT", manifest.to_text());
  FolderUpload upload(bucket.url("run"), {.reuses = true});
  for (const FolderFile& file : manifest.files) upload.put(file.name, "");
  upload.put("new", "1");
  upload.commit();
  EXPECT_EQ(upload.bytes_sent(), 1);
  const auto files = files_in_folders(*RemoteStorage::of_process(), bucket.url("run"));
  ASSERT_TRUE(files);
  EXPECT_EQ(files->size(), 20'001);
}

// The bytes of the second and third file fit beside the first one's, those of the fourth do not.
TEST_P(ObjectFolder, SendsFilesBesideEachOtherWhileTheirBytesHaveRoom) {
  TestBucket bucket(GetParam());
  const std::string content = content_of(1'000);
  std::barrier three_are_there(3);
  std::atomic<int> sent = 0;
  FolderUpload upload(bucket.url("run"), {.bytes_in_flight = 3'000});
  for (int i = 0; i < 12; ++i) {
    const std::string path = local_.path(std::to_string(i));
    std::ofstream(path, std::ios::binary) << content;
    upload.add(std::to_string(i), path, [&] {
      ++sent;
      three_are_there.arrive_and_wait();
    });
    EXPECT_GE(sent, i - 2);
  }
  upload.commit();
  EXPECT_EQ(sent, 12);
  FolderUpload alone(bucket.url("run"), {.bytes_in_flight = 1});
  sent = 0;
  for (int i = 0; i < 4; ++i) {
    alone.add(std::to_string(i), local_.path(std::to_string(i)), [&] { ++sent; });
    EXPECT_GE(sent, i);
  }
  alone.commit();
}

TEST_P(ObjectFolder, SaysWhichLocalFileCannotBeRead) {
  TestBucket bucket(GetParam());
  const auto error = error_of_step([&] {
    FolderUpload upload(bucket.url("run"));
    upload.add("a", local_.path("missing"));
    upload.commit();
  });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->to_string(), HasSubstr(local_.path("missing")));
  EXPECT_THAT(bucket.keys(), IsEmpty());
}

TEST_P(ObjectFolder, SendsAgainOnlyWhatIsNew) {
  TestBucket bucket(GetParam());
  const Files first{{"a", content_of(50'000)}, {"b", content_of(10)}, {"c", "ccc"}};
  const std::string first_id = write_all(bucket.url("run"), first, {.reuses = true});
  Files second = first;
  second["b"] = content_of(10) + "!";
  second["c"] = "ddd";  // as long as before
  FolderUpload upload(bucket.url("run"), {.reuses = true});
  write(upload, second);
  upload.commit();
  EXPECT_EQ(upload.bytes_sent(), 14);
  EXPECT_EQ(read(bucket.url("run"), second), second);
  EXPECT_THAT(bucket.keys(),
              ElementsAre("run/" + std::min(first_id, upload.id()) + "/" + (first_id < upload.id() ? "a" : "b"),
                          testing::_, testing::_, "run/COMMIT"));
  EXPECT_EQ(bucket.content("run/" + first_id + "/a"), content_of(50'000));
  EXPECT_EQ(bucket.content("run/" + first_id + "/b"), std::nullopt);
}

// One that is given its earlier time shows whether it is read.
TEST_P(ObjectFolder, ReadsFilesAgainThatMayHaveChanged) {
  namespace fs = std::filesystem;
  TestBucket bucket(GetParam());
  const auto checksums = std::make_shared<FileChecksums>();
  const auto make = [](const std::string& path, const std::string& content, fs::file_time_type modified) {
    std::ofstream(path, std::ios::binary) << content;
    fs::last_write_time(path, modified);
  };
  const auto bytes_sent = [&](const std::string& path) {
    FolderUpload upload(bucket.url("run"), {.reuses = true, .checksums = checksums});
    upload.add("a", path);
    upload.commit();
    return upload.bytes_sent();
  };
  const std::string path = local_.path("file");
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(1);
  make(path, "first", old);
  EXPECT_EQ(bytes_sent(path), 5);
  make(path, "other", old);
  fs::create_hard_link(path, local_.path("link"));
  EXPECT_EQ(bytes_sent(local_.path("link")), 0) << "it is read";
  fs::last_write_time(path, old + seconds(1));
  EXPECT_EQ(bytes_sent(path), 5) << "its time is another";
  make(local_.path("new"), "third", old + seconds(1));
  fs::rename(local_.path("new"), path);
  EXPECT_EQ(bytes_sent(path), 5) << "another file is in its place";
  const auto young = fs::file_time_type::clock::now() + std::chrono::hours(1);
  make(path, "fifth", young);
  EXPECT_EQ(bytes_sent(path), 5);
  make(path, "sixth", young);
  EXPECT_EQ(bytes_sent(path), 5) << "it may have changed within a tick of the clock";
  EXPECT_EQ(read(bucket.url("run"), {{"a", ""}}), (Files{{"a", "sixth"}}));
}

// Else it would name objects that the other one has removed.
TEST_P(ObjectFolder, NoticesAnotherWriterWhoseObjectsItWouldReuse) {
  TestBucket bucket(GetParam());
  write_all(bucket.url("run"), kFirst);
  FolderUpload upload(bucket.url("run"), {.reuses = true});
  write(upload, kFirst);
  write_all(bucket.url("run"), kSecond);
  const auto error = error_of_step([&] { upload.commit(); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->to_string(), HasSubstr("another writer has exchanged it meanwhile"));
  EXPECT_EQ(read(bucket.url("run"), kSecond), kSecond);
}

TEST_P(ObjectFolder, RefusesNamesTwiceAndWhatIsNoFolder) {
  TestBucket bucket(GetParam());
  FolderUpload upload(bucket.url("run"));
  upload.put("a", "1");
  upload.put("a", "2");
  EXPECT_TRUE(error_of_step([&] { upload.commit(); }));
  FolderUpload other(bucket.url("run"));
  EXPECT_TRUE(error_of_step([&] { other.put("\xff", "1"); }));
  for (const std::string& url : {bucket.url(""), std::string("https://host/a"), std::string("/tmp/a")}) {
    EXPECT_TRUE(error_of_step([&] { FolderUpload none(url); })) << url;
  }
}

TEST_P(ObjectFolder, IsCopiedToTheDisk) {
  TestBucket bucket(GetParam());
  const Files files{{"a", content_of(9 << 20)}, {"b/c", "c"}, {"b/d/e", ""}};
  write_all(bucket.url("run"), files);
  const auto copied = [&](const std::string& key, const std::string& name) {
    const std::string to = local_.path(name);
    Files found;
    for (const std::string& file : download_folder(bucket.url(key), to))
      found[file] = read_whole_anywhere(to + "/" + file);
    return found;
  };
  EXPECT_TRUE(copied("run", "1") == files);
  EXPECT_EQ(copied("run/b/", "2"), (Files{{"c", "c"}, {"d/e", ""}}));
  EXPECT_TRUE(error_of_step([&] { copied("run/z", "3"); }));
  bucket.put("plain/x", "x");
  bucket.put("plain/y/", "");
  bucket.put("plain/y/z", "z");
  EXPECT_EQ(copied("plain", "4"), (Files{{"x", "x"}, {"y/z", "z"}}));
  bucket.put("evil//z", "z");
  EXPECT_TRUE(error_of_step([&] { copied("evil", "5"); }));
}

TEST_P(ObjectFolder, IsNotCopiedDamaged) {
  TestBucket bucket(GetParam());
  const std::string id = write_all(bucket.url("run"), {{"a", "abc"}});
  bucket.put("run/" + id + "/a", "abd");
  const auto error = error_of_step([&] { download_folder(bucket.url("run"), local_.path("1")); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->to_string(), AllOf(HasSubstr("CRC-32C"), HasSubstr(id + "/a")));
  EXPECT_FALSE(exists_anywhere(local_.path("1/a")));
}

TEST_P(ObjectFolder, HasLeftoversOfWritersThatWereKilled) {
  TestBucket bucket(GetParam());
  const std::string id = write_all(bucket.url("x/run"), {{"a", "a"}});
  bucket.put("x/run/20240101T000000Z-01234567/a", "left");
  bucket.put("x/run/20240101T000000Z-01234567/b/c", "left");
  bucket.put("x/never/20240101T000000Z-01234568/a", "left");
  bucket.put("x/other/a", "somebody's");
  EXPECT_THAT(
      folder_leftovers(bucket.url("x/"), seconds(3600)).objects,
      ElementsAre(bucket.url("x/never/20240101T000000Z-01234568/a"), bucket.url("x/run/20240101T000000Z-01234567/a"),
                  bucket.url("x/run/20240101T000000Z-01234567/b/c")));
  EXPECT_THAT(folder_leftovers(bucket.url("x/run/"), seconds(3600)).objects, testing::SizeIs(2));
  EXPECT_THAT(folder_leftovers(bucket.url("x/"), std::chrono::hours(24 * 365 * 100)).objects, IsEmpty());
  EXPECT_THAT(folder_leftovers(bucket.url("x/run/" + id), seconds(0)).objects, IsEmpty())
      << "a prefix below the folder";
}

TEST_P(ObjectFolder, HasNoLeftoversBesideWhatIsNoManifest) {
  TestBucket bucket(GetParam());
  const std::string id = write_all(bucket.url("run"), kFirst);
  bucket.put("run/" + id + "/a.index", "of a file that is there");
  bucket.put("run/" + id + "/z.index", "of none");
  EXPECT_THAT(folder_leftovers(bucket.url("run/"), seconds(0)).objects,
              ElementsAre(bucket.url("run/" + id + "/z.index")));
  for (const char* text : {"", "half a manif", R"({"format": "millrace folder", "version": 1, "id": "x"})"}) {
    bucket.put("run/COMMIT", text);
    const FolderLeftovers leftovers = folder_leftovers(bucket.url("run/"), seconds(0));
    EXPECT_THAT(leftovers.objects, IsEmpty()) << text;
    EXPECT_THAT(leftovers.unreadable, ElementsAre(bucket.url("run/COMMIT")));
    EXPECT_TRUE(error_of_step([&] { write_all(bucket.url("run"), kSecond); })) << "and is not written over";
  }
}

// Whatever a pattern has in its place.
TEST_P(ObjectFolder, IsNotSeenThroughItsIds) {
  TestBucket bucket(GetParam());
  const std::string id = write_all(bucket.url("set"), {{"part-1", "1"}});
  bucket.put("set/20240101T000000Z-01234567/part-2", "of a writer that was killed");
  EXPECT_THAT(glob_anywhere(bucket.url("set/*/part-*")), IsEmpty());
  EXPECT_THAT(glob_anywhere(bucket.url("s*/*/part-*")), IsEmpty());
  EXPECT_THAT(glob_anywhere(bucket.url("set/*")), ElementsAre(bucket.url("set/" + id + "/part-1")));
  EXPECT_THAT(glob_anywhere(bucket.url("set/" + id + "/*")), ElementsAre(bucket.url("set/" + id + "/part-1")));
  EXPECT_THAT(download_folder(bucket.url(""), local_.path("all")), ElementsAre(".there", "set/part-1"));
  EXPECT_THAT(RemoteStorage::of_process()->plain_names_in(bucket.url("set")), IsEmpty());
  bucket.put("set/other/x", "");
  bucket.put("set/x", "");
  EXPECT_THAT(RemoteStorage::of_process()->plain_names_in(bucket.url("set")), ElementsAre("other", "x"));
}

// Two read the same COMMIT and write theirs: the store lets one of them.
TEST_P(ObjectFolder, IsNotExchangedBehindAnotherWritersBack) {
  TestBucket* there = nullptr;
  std::atomic<bool> comes = false;
  TestBucket bucket(GetParam(), [&](const BucketRequest& request) {
    if (request.method == "PUT" && request.key == "run/COMMIT" && comes.exchange(false)) {
      there->put("run/COMMIT", FolderManifest{.id = "20261129T024500Z-5d41402a"}.to_text());
    }
    return false;
  });
  there = &bucket;
  write_all(bucket.url("run"), kFirst);
  comes = true;
  const auto error = error_of_step([&] { write_all(bucket.url("run"), kSecond); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->to_string(), HasSubstr("there is another object than the one to be replaced"));
  EXPECT_THAT(*bucket.content("run/COMMIT"), HasSubstr("20261129T024500Z-5d41402a"));
}

// What cannot be read names nothing: all of the folder would seem to be left over.
TEST_P(ObjectFolder, HasNoLeftoversWhereItsManifestCannotBeSeen) {
  std::atomic<bool> hides = false;
  TestBucket bucket(GetParam(), [&](const BucketRequest& request) { return hides && request.key == "run/COMMIT"; });
  write_all(bucket.url("run"), kFirst);
  hides = true;
  EXPECT_TRUE(error_of_step([&] { (void)folder_leftovers(bucket.url("run/"), seconds(0)); }));
}

TEST_P(ObjectFolder, RemovesManyObjects) {
  TestBucket bucket(GetParam());
  std::vector<std::string> urls{bucket.url("missing")};
  for (int i = 0; i < 100; ++i) {
    bucket.put(fmt::format("many/{:02}", i), "");
    if (i != 50) urls.push_back(bucket.url(fmt::format("many/{:02}", i)));
  }
  const auto storage = RemoteStorage::of_process();
  EXPECT_THAT(storage->list(bucket.url("many/")), testing::SizeIs(100));
  storage->remove(urls);
  EXPECT_THAT(bucket.keys(), ElementsAre("many/50"));
}

INSTANTIATE_TEST_SUITE_P(Stores, ObjectFolder, testing::Values(TestBucket::Store::kS3, TestBucket::Store::kGoogle),
                         [](const auto& test) { return to_string(test.param); });

}  // namespace
}  // namespace millrace::object_folder_test
