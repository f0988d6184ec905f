// Objects that are read through a cache on disk: what comes from where, what becomes of damage, of other versions, of a
// full cache, of processes that share one.
#include "millrace/formats/storage/remote/disk_cache.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "millrace/formats/storage/remote/block_cache.h"
#include "millrace/formats/storage/remote/cache_block.h"
#include "millrace/formats/storage/remote/cache_folder.h"
#include "millrace/formats/storage/remote/cache_writer.h"
#include "millrace/formats/storage/whole_file.h"
#include "tests/formats/storage/remote/fetch.h"
#include "tests/programs/file_faults.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

namespace millrace::disk_cache_test {
namespace {

namespace fs = std::filesystem;
using test::content_of;
using test::fetch;
using test::Fetched;
using test::ReadAndOpenSink;
using test::TemporaryFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kBlock = kCacheBlockBytes;

// A store of one object, which counts what it is asked for. Answers inside the call.
class OneObject final : public Storage {
 public:
  void put(std::string content, std::string version) {
    content_ = std::move(content);
    version_ = fmt::format("etag {}, {} bytes", version, content_.size());
  }
  void put_without_tag(std::string content) {
    content_ = std::move(content);
    version_ = fmt::format("{} bytes", content_.size());
  }
  void open(const std::string& /*path*/, std::shared_ptr<OpenSink> sink) override {
    sink->open_done({.file = std::make_shared<Opened>(*this)});
  }
  std::vector<std::string> glob(const std::string& /*pattern*/) override { return {}; }

  std::atomic<size_t> read_bytes = 0;

 private:
  class Opened final : public File {
   public:
    explicit Opened(OneObject& object) : object_(object), version_(object.version_) {}
    uint64_t size() const override { return object_.content_.size(); }
    std::string version() const override { return version_; }
    ReadAdvice advice() const override { return {.bytes = 1'000'000, .in_flight = 3}; }
    void read(uint64_t offset, std::span<std::byte> destination, std::shared_ptr<ReadSink> sink) override {
      const size_t bytes = std::min<size_t>(destination.size(), size() - std::min(offset, size()));
      std::memcpy(destination.data(), object_.content_.data() + offset, bytes);
      object_.read_bytes += bytes;
      sink->read_done({.bytes = bytes});
    }

   private:
    OneObject& object_;
    const std::string version_;
  };
  std::string content_;
  std::string version_;
};

class CachedStorage final : public Storage {
 public:
  CachedStorage(std::shared_ptr<DiskCache> cache, Storage& storage) : cache_(std::move(cache)), storage_(storage) {}
  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override {
    cache_->open_file(storage_, path, path, std::move(sink));
  }
  std::vector<std::string> glob(const std::string& /*pattern*/) override { return {}; }

 private:
  const std::shared_ptr<DiskCache> cache_;
  Storage& storage_;
};

class DiskCacheTest : public testing::Test {
 protected:
  // What has come is written when this returns; `statistics_` are of this read.
  Fetched read(const std::string& url = "s3://bucket/a", uint64_t most = 0) {
    const auto cache = DiskCache::open(options(most));
    const DiskCacheStatistics before = cache->statistics();
    CachedStorage storage(cache, object_);
    object_.read_bytes = 0;
    Fetched fetched = fetch(storage, url);
    EXPECT_TRUE(cache->flush());
    statistics_ = cache->statistics() - before;
    return fetched;
  }
  std::shared_ptr<File> open(const std::shared_ptr<DiskCache>& cache, const std::string& url = "s3://bucket/a") {
    CachedStorage storage(cache, object_);
    const auto sink = std::make_shared<ReadAndOpenSink>();
    storage.open(url, sink);
    EXPECT_TRUE(sink->flag.wait());
    EXPECT_TRUE(cache->flush());  // nobody else has it any more
    return sink->open.file;
  }
  // Reads until all has come; gives whether it is that of the object.
  static bool read_range(File& file, std::string_view content, uint64_t offset, size_t size) {
    std::vector<std::byte> room(size);
    size_t done = 0;
    const auto sink = std::make_shared<ReadAndOpenSink>();
    while (done < size && offset + done < content.size()) {
      file.read(offset + done, std::span(room).subspan(done), sink);
      if (!sink->flag.wait() || !sink->read.ok || sink->read.bytes == 0) return false;
      done += sink->read.bytes;
    }
    return done == std::min<uint64_t>(size, content.size() - offset) &&
           std::memcmp(room.data(), content.data() + offset, done) == 0;
  }
  DiskCacheOptions options(uint64_t most = 0) {
    return {.folder = folder(), .bytes = most, .on_end = [this](const std::string& why) { ended_.push_back(why); }};
  }
  CacheObject object_at(const std::string& url, const std::string& tag, uint64_t size) const {
    return CacheObject::of(fs::canonical(folder()).string(), url, fmt::format("etag {}, {} bytes", tag, size), size,
                           url);
  }
  std::string folder() const { return temporary_.path("cache"); }
  // What is not whole has a name where the file system knows no files without one.
  bool has_unnamed_files() const {
    const int descriptor = ::open(folder().c_str(), O_TMPFILE | O_RDWR, 0600);
    if (descriptor >= 0) ::close(descriptor);
    return descriptor >= 0;
  }
  // Files of the cache, but for its mark.
  std::vector<fs::path> files(const std::string& named = "") const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder())) {
      const std::string name = entry.path().filename().string();
      if (entry.is_regular_file() && !name.starts_with("millrace-cache") && (named.empty() || name == named))
        found.push_back(entry.path());
    }
    std::ranges::sort(found);
    return found;
  }
  std::vector<fs::path> blocks() const {
    auto found = files();
    std::erase_if(found, [](const fs::path& file) { return file.filename() == "object.json"; });
    return found;
  }

  TemporaryFolder temporary_;
  OneObject object_;
  DiskCacheStatistics statistics_;
  std::vector<std::string> ended_;
};

TEST_F(DiskCacheTest, GivesWhatWasReadBefore) {
  for (const size_t size : {size_t{1}, kCachePieceBytes - 1, kCachePieceBytes, kCachePieceBytes + 1, kBlock - 1, kBlock,
                            kBlock + 1, 2 * kBlock + 300'000}) {
    const std::string content = content_of(size);
    object_.put(content, std::to_string(size));
    for (const bool is_first : {true, false}) {
      const Fetched fetched = read();
      ASSERT_FALSE(fetched.error) << fetched.error->to_string();
      EXPECT_TRUE(fetched.bytes == content) << size;
      EXPECT_EQ(object_.read_bytes, is_first ? size : 0U) << size;
      EXPECT_EQ(statistics_.hit_bytes, is_first ? 0U : size);
      EXPECT_EQ(statistics_.missed_bytes, is_first ? size : 0U);
    }
  }
  EXPECT_THAT(ended_, IsEmpty());
}

TEST_F(DiskCacheTest, SaysOfWhatItsBlocksAre) {
  object_.put(content_of(10), "5d41");
  read("https://host/a?X-Amz-Signature=secret");
  ASSERT_EQ(files("object.json").size(), 1U);
  EXPECT_THAT(read_whole_file(files("object.json").front().string()),
              AllOf(HasSubstr("https://host/a"), HasSubstr("etag 5d41, 10 bytes"), testing::Not(HasSubstr("secret"))));
}

// Any range, where blocks are there, where they are not, and across both.
TEST_F(DiskCacheTest, GivesAnyRange) {
  const std::string content = content_of(3 * kBlock + 12'345);
  object_.put(content, "a");
  read();
  fs::remove(blocks()[1]);
  const auto cache = DiskCache::open(options());
  const DiskCacheStatistics before = cache->statistics();
  const auto file = open(cache);
  std::mt19937 random(7);
  for (int i = 0; i < 400; ++i) {
    // Often near the borders of pieces and blocks.
    uint64_t offset = random() % content.size();
    if (i % 2 == 0) offset = offset / kCachePieceBytes * kCachePieceBytes + random() % 3;
    const size_t size = 1 + random() % (i % 3 == 0 ? 3'000'000 : 2'000);
    if (offset >= content.size()) continue;
    ASSERT_TRUE(read_range(*file, content, offset, size)) << offset << " " << size;
  }
  const DiskCacheStatistics statistics = cache->statistics() - before;
  EXPECT_GT(statistics.hit_bytes, 0U);
  EXPECT_GT(statistics.missed_bytes, 0U);
  EXPECT_EQ(statistics.damaged_blocks, 0U);
}

// What is there is not asked for again, also where a read goes over into it.
TEST_F(DiskCacheTest, AsksOnlyForWhatIsNotThere) {
  const std::string content = content_of(3 * kBlock);
  object_.put(content, "a");
  read();
  fs::remove(blocks()[1]);
  const auto file = open(DiskCache::open(options()));
  object_.read_bytes = 0;
  EXPECT_TRUE(read_range(*file, content, 0, content.size()));
  EXPECT_EQ(object_.read_bytes, kBlock);
}

TEST_F(DiskCacheTest, IsReadAsLocalFilesAreWhereAllIsThere) {
  object_.put(content_of(2 * kBlock), "a");
  const auto advice = [&] { return open(DiskCache::open(options()))->advice().in_flight; };
  EXPECT_EQ(advice(), 3);
  read();
  EXPECT_EQ(advice(), 1);
  fs::remove(blocks()[0]);
  EXPECT_EQ(advice(), 3);
}

TEST_F(DiskCacheTest, AsksForDamagedBlocksAnew) {
  const std::string content = content_of(2 * kBlock + 1000);
  object_.put(content, "a");
  read();
  const fs::path first = blocks()[0];
  const std::string whole = read_whole_file(first.string());
  const std::string second = read_whole_file(blocks()[1].string());
  std::vector<std::string> damaged;
  for (const size_t at : {size_t{0}, kBlock / 2, kBlock - 1, kBlock, kBlock + 300, kBlock + 520, kBlock + 545,
                          whole.size() - 12, whole.size() - 1}) {
    damaged.push_back(whole);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 1);
  }
  damaged.emplace_back("");
  damaged.push_back(whole.substr(0, whole.size() - 1));
  damaged.push_back(whole + 'x');
  damaged.push_back(std::string(whole.size(), '\0'));  // as after a power cut
  damaged.push_back(second);                           // a whole block, and another one
  for (size_t i = 0; i < damaged.size(); ++i) {
    std::ofstream(first, std::ios::binary) << damaged[i];
    const Fetched fetched = read();
    ASSERT_FALSE(fetched.error) << fetched.error->to_string();
    ASSERT_TRUE(fetched.bytes == content) << i;
    EXPECT_EQ(statistics_.damaged_blocks, 1U) << i;
    EXPECT_GT(object_.read_bytes, 0U) << i;
    EXPECT_LE(object_.read_bytes, kBlock + 1'000'000) << i;
    // Where the damage was not at its beginning all of it comes from the store only now.
    ASSERT_TRUE(read().bytes == content) << i;
    EXPECT_EQ(statistics_.damaged_blocks, 0U) << i;
    ASSERT_TRUE(fs::exists(first)) << i;
    EXPECT_TRUE(read_whole_file(first.string()) == whole) << i;
  }
}

TEST_F(DiskCacheTest, GivesNoOtherVersion) {
  object_.put(content_of(1000), "one");
  read();
  object_.put(std::string(1000, 'x'), "two");
  EXPECT_EQ(read().bytes, std::string(1000, 'x'));
  EXPECT_EQ(read().bytes, std::string(1000, 'x'));
  EXPECT_EQ(object_.read_bytes, 0U);
  object_.put(std::string(1000, 'y'), "two");
  EXPECT_EQ(read("s3://bucket/b").bytes, std::string(1000, 'y')) << "of another object";
}

TEST_F(DiskCacheTest, KeepsNothingThatNothingTellsApart) {
  object_.put_without_tag(content_of(1000));
  read();
  EXPECT_EQ(statistics_.uncached_files, 1U);
  EXPECT_THAT(files(), IsEmpty());
  object_.put_without_tag(std::string(1000, 'x'));
  EXPECT_EQ(read().bytes, std::string(1000, 'x'));
}

TEST_F(DiskCacheTest, KeepsNoPartsOfBlocks) {
  const std::string content = content_of(3 * kBlock);
  object_.put(content, "a");
  const auto cache = DiskCache::open(options());
  const auto file = open(cache);
  EXPECT_TRUE(read_range(*file, content, 0, kBlock - 100));
  EXPECT_TRUE(read_range(*file, content, kBlock + 1, 2 * kBlock - 1)) << "one without its beginning, one whole";
  EXPECT_TRUE(cache->flush());
  EXPECT_EQ(files().size(), has_unnamed_files() ? 2U : 3U) << "a description and a block";
  EXPECT_TRUE(fs::exists(object_at("s3://bucket/a", "a", 3 * kBlock).path(2)));
}

// As of an order of all records: nothing would become whole.
TEST_F(DiskCacheTest, WritesNothingOfReadsHereAndThere) {
  const std::string content = content_of(4 * kBlock);
  object_.put(content, "a");
  const auto cache = DiskCache::open(options());
  const DiskCacheStatistics before = cache->statistics();
  const auto file = open(cache);
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(read_range(*file, content, 1000 + (i * 37 % 50) * 600'000, 100'000));
  EXPECT_TRUE(cache->flush());
  EXPECT_EQ((cache->statistics() - before).missed_bytes, 5'000'000U);
  EXPECT_LE(files().size(), 1U) << "a read that happened to be of the beginning of a block";
}

// In pieces of any size and any order, also twice.
TEST_F(DiskCacheTest, PutsPiecesTogether) {
  prepare_cache_folder(folder());
  const std::string content = content_of(kBlock + 5);
  const CacheObject object = object_at("s3://bucket/a", "a", content.size());
  std::vector<std::pair<size_t, size_t>> pieces;
  std::mt19937 random(3);
  for (size_t begin = 0; begin < kBlock;) {
    const size_t size = std::min<size_t>(1 + random() % 500'000, kBlock - begin);
    pieces.emplace_back(begin, size);
    if (begin > 100'000) pieces.emplace_back(begin - 100'000, size);
    begin += size;
  }
  std::ranges::shuffle(pieces, random);
  CacheWriter writer(fs::canonical(folder()).string());
  bool is_whole = false;
  for (const auto& [begin, size] : pieces) {
    const auto written = writer.write(object, 0, begin, std::as_bytes(std::span(content)).subspan(begin, size));
    if (!written) continue;
    is_whole = true;
    EXPECT_EQ(*written, fs::file_size(object.path(0)));
    break;
  }
  EXPECT_TRUE(is_whole);
  EXPECT_TRUE(writer.write(object, 1, 0, std::as_bytes(std::span(content)).subspan(kBlock)));
  object_.put(content, "a");
  EXPECT_TRUE(read().bytes == content);
  EXPECT_EQ(object_.read_bytes, 0U);
}

TEST_F(DiskCacheTest, LeavesNothingOfBlocksThatAreGivenUp) {
  prepare_cache_folder(folder());
  const std::vector<std::byte> bytes(1000);
  const CacheObject object = object_at("s3://bucket/a", "a", kBlock);
  {
    CacheWriter writer(folder());
    EXPECT_FALSE(writer.write(object, 0, 0, bytes));
    EXPECT_EQ(files().size(), has_unnamed_files() ? 0U : 1U);
    writer.drop(object, 0);
    EXPECT_THAT(files(), IsEmpty());
    EXPECT_FALSE(writer.write(object, 0, 0, bytes));
  }
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(DiskCacheTest, RemovesWhatWasNotUsedForLongest) {
  object_.put(content_of(kBlock), "a");
  const uint64_t one = CacheObject{.size = kBlock}.file_size(0);
  for (int i = 0; i < 5; ++i) read(fmt::format("s3://bucket/{}", i), 100 * one);
  ASSERT_EQ(blocks().size(), 5U);
  // As if each had been written an hour after the one before.
  const auto now = fs::file_time_type::clock::now();
  const auto path_of = [&](const std::string& name) { return object_at("s3://bucket/" + name, "a", kBlock).path(0); };
  for (int i = 0; i < 5; ++i) fs::last_write_time(path_of(std::to_string(i)), now - std::chrono::hours(10 - i));
  read("s3://bucket/0", 100 * one);  // is used
  EXPECT_EQ(object_.read_bytes, 0U);
  evict_from_cache(folder(), 3 * one);
  const auto is_there = [&](const std::string& name) { return fs::exists(path_of(name)); };
  EXPECT_TRUE(is_there("0"));
  EXPECT_TRUE(is_there("4"));
  EXPECT_FALSE(is_there("1"));
  EXPECT_FALSE(is_there("2"));
  EXPECT_FALSE(is_there("3")) << "95% of three are two";
  EXPECT_EQ(files("object.json").size(), blocks().size()) << "of objects without blocks nothing is left";
}

TEST_F(DiskCacheTest, StaysBelowItsMostBytes) {
  const uint64_t most = 5 * kBlock;
  object_.put(content_of(kBlock), "a");
  for (int i = 0; i < 12; ++i) {
    read(fmt::format("s3://bucket/{}", i), most);
    uint64_t bytes = 0;
    for (const fs::path& file : blocks()) bytes += fs::file_size(file);
    EXPECT_LE(bytes, most) << i;
    EXPECT_GE(bytes, std::min<uint64_t>(static_cast<uint64_t>(i) + 1, 3) * kBlock) << i;
  }
  EXPECT_THAT(ended_, IsEmpty());
}

TEST_F(DiskCacheTest, RemovesNothingOfOthers) {
  object_.put(content_of(100), "a");
  read();
  const std::vector<std::string> others = {"notes.txt", "ab/notes.txt",
                                           "ab/0123456789abcdef0123456789abcdef/00000000.bak", "00000000",
                                           "zz/0123456789abcdef0123456789abcdef/00000000"};
  for (const std::string& name : others) {
    fs::create_directories((fs::path(folder()) / name).parent_path());
    std::ofstream(fs::path(folder()) / name) << std::string(100'000, 'x');
  }
  read("s3://bucket/b", 1);
  EXPECT_THAT(blocks().size(), others.size());
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(fs::path(folder()) / name)) << name;
}

TEST_F(DiskCacheTest, RemovesWhatKilledWritersLeft) {
  prepare_cache_folder(folder());
  for (const char* name : {"tmp-1-1", "tmp-1-2"}) std::ofstream(fs::path(folder()) / name) << "abc";
  fs::last_write_time(fs::path(folder()) / "tmp-1-1", fs::file_time_type::clock::now() - std::chrono::hours(2));
  evict_from_cache(folder(), 0);
  EXPECT_THAT(files(), ElementsAre(fs::path(folder()) / "tmp-1-2")) << "somebody may be at it";
}

TEST_F(DiskCacheTest, CountsWhatIsNotWhole) {
  prepare_cache_folder(folder());
  std::ofstream(fs::path(folder()) / "tmp-abc") << std::string(5000, 'x');
  EXPECT_EQ(evict_from_cache(folder(), 1'000'000).bytes, 5000U);
}

TEST_F(DiskCacheTest, IsAFolderOfItsOwn) {
  fs::create_directories(folder());
  std::ofstream(folder() + "/thesis.tex") << "x";
  try {
    (void)DiskCache::open({.folder = folder()});
    FAIL();
  } catch (const ErrorException& error) {
    EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.error().to_string(),
                AllOf(HasSubstr("it has other things than a disk cache"), HasSubstr(folder())));
  }
  EXPECT_TRUE(fs::exists(folder() + "/thesis.tex"));
  EXPECT_THROW((void)DiskCache::open({.folder = folder() + "/thesis.tex"}), ErrorException);
  EXPECT_THROW((void)DiskCache::open({.folder = "s3://bucket/cache"}), ErrorException);
  EXPECT_FALSE(fs::exists("s3:"));
  const std::string own = temporary_.path("deep/own");
  (void)DiskCache::open({.folder = own});
  EXPECT_EQ(fs::status(own).permissions(), fs::perms::owner_all) << "what is read with credentials is not for others";
}

// Also while it is used.
TEST_F(DiskCacheTest, MayBeDeleted) {
  const std::string content = content_of(2 * kBlock);
  object_.put(content, "a");
  for (const bool is_folder_left : {true, false}) {
    read();
    auto file = open(DiskCache::open(options()));
    EXPECT_TRUE(read_range(*file, content, 0, 1'000'000));
    if (is_folder_left) {
      for (const auto& entry : fs::directory_iterator(folder())) fs::remove_all(entry.path());
    } else {
      fs::remove_all(folder());
    }
    EXPECT_TRUE(read_range(*file, content, 0, content.size())) << "of the file that is open, then of the store";
    file = nullptr;
    // Of handles that find it out one after the other some may be too late for the first time.
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(read().bytes == content);
    EXPECT_EQ(object_.read_bytes, 0U) << "it is written anew";
    prepare_cache_folder(folder());  // and is a cache still
  }
  EXPECT_THAT(ended_, IsEmpty());
}

// The disk is full, or fails: here there is a file in the way.
TEST_F(DiskCacheTest, IsNeverInTheWay) {
  const std::string content = content_of(1000);
  object_.put(content, "a");
  prepare_cache_folder(folder());
  std::vector<std::string> in_the_way;
  const auto block = [&](const std::string& url) {
    in_the_way.push_back(fs::path(object_at(url, "a", content.size()).folder).parent_path());
    std::ofstream(in_the_way.back()) << "x";
  };
  // Once and again it goes on, and after three times in a row it ends.
  block("s3://bucket/a");
  EXPECT_EQ(read("s3://bucket/a").bytes, content);
  EXPECT_THAT(ended_, IsEmpty());
  for (const std::string& file : in_the_way) fs::remove(file);
  EXPECT_EQ(read("s3://bucket/a").bytes, content);
  EXPECT_EQ(blocks().size(), 1U);
  for (const std::string url : {"s3://bucket/1", "s3://bucket/2", "s3://bucket/3", "s3://bucket/4"}) {
    block(url);
    EXPECT_EQ(read(url).bytes, content);
  }
  ASSERT_EQ(ended_.size(), 1U) << "is told once";
  EXPECT_THAT(ended_[0], HasSubstr("Not a directory"));
  EXPECT_EQ(statistics_.ended, ended_[0]);
  EXPECT_EQ(read("s3://bucket/a").bytes, content);
  EXPECT_EQ(object_.read_bytes, 0U) << "what is there is read";
}

TEST_F(DiskCacheTest, IsSharedByThreads) {
  const std::string content = content_of(2 * kBlock + 77);
  object_.put(content, "a");
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 3; ++round) {
        CachedStorage storage(
            DiskCache::open({.folder = folder(), .bytes = static_cast<uint64_t>(40 + i % 2) * kBlock}), object_);
        if (fetch(storage, fmt::format("s3://bucket/{}", round % 2)).bytes != content) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  const auto cache = DiskCache::open({.folder = folder()});
  EXPECT_TRUE(cache->flush());
  EXPECT_EQ(cache->statistics().ended, "");
  EXPECT_GT(blocks().size(), 0U);
}

// More than may wait: blocks are given up, and those that are there are whole.
TEST_F(DiskCacheTest, GivesUpBlocksThatComeTooFast) {
  prepare_cache_folder(folder());
  const auto cache = std::make_shared<BlockCache>(options());
  // The thread that writes first locks the folder, to look at it: there it stands still until too much waits for it.
  std::latch too_much_waits(1);
  test::replace_flock([&](int file, int operation) {
    too_much_waits.wait();
    return test::real_flock(file, operation);
  });
  const std::string content = content_of(kBlock);
  std::vector<std::shared_ptr<CachedObject>> objects;
  for (int i = 0; i < 48; ++i) {
    objects.push_back(std::make_shared<CachedObject>(object_at(fmt::format("s3://bucket/{}", i), "a", kBlock)));
    cache->begin(objects.back(), 0);
  }
  const auto bytes = std::as_bytes(std::span(content));
  for (size_t offset = 0; offset < kBlock; offset += kBlock / 4) {
    for (const auto& object : objects) cache->offer(object, offset, bytes.subspan(offset, kBlock / 4));
    if (offset == 0) too_much_waits.count_down();
    EXPECT_TRUE(cache->flush(std::chrono::minutes(5)));  // what is left of the others has room
  }
  test::replace_flock(nullptr);
  object_.put(content, "a");
  uint64_t num_present = 0;
  for (size_t i = 0; i < objects.size(); ++i) {
    const bool is_there = fs::exists(objects[i]->files().path(0));
    EXPECT_EQ(objects[i]->state(0), is_there ? CachedObject::State::kPresent : CachedObject::State::kAbsent);
    num_present += is_there ? 1 : 0;
    EXPECT_TRUE(read(fmt::format("s3://bucket/{}", i)).bytes == content);
    EXPECT_EQ(object_.read_bytes, is_there ? 0U : kBlock);
  }
  const DiskCacheStatistics statistics = cache->statistics();
  EXPECT_EQ(statistics.missed_bytes, 48 * kBlock);
  EXPECT_GT(statistics.dropped_bytes, 0U);
  EXPECT_GT(num_present, 0U);
  EXPECT_LT(num_present, 48U);
  EXPECT_EQ(statistics.ended, "");
  cache->begin(objects.back(), 0);  // and it goes on
  EXPECT_EQ(objects.back()->state(0), CachedObject::State::kComing);
}

TEST_F(DiskCacheTest, LeavesNothingWhenAProcessEnds) {
  if (test::kSanitized) GTEST_SKIP() << "forks with threads: the sanitizer's locks may be taken";
  const std::string content = content_of(2 * kBlock);
  object_.put(content, "a");
  const pid_t child = ::fork();
  if (child == 0) {
    const auto file = open(DiskCache::open(options()));
    const bool is_right = read_range(*file, content, 0, kBlock + 1'000'000);
    std::exit(is_right ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(blocks().size(), 1U) << "what had come as a whole";
}

// Those that begin at the same moment, and those that are killed.
TEST_F(DiskCacheTest, IsSharedByProcesses) {
  if (test::kSanitized) GTEST_SKIP() << "forks with threads: the sanitizer's locks may be taken";
  const std::string content = content_of(3 * kBlock + 500'000);
  object_.put(content, "a");
  std::mt19937 random(11);
  int num_killed = 0;
  for (size_t round = 0; round < 8 || (num_killed == 0 && round < 200); ++round) {
    std::vector<pid_t> children;
    for (int i = 0; i < 4; ++i) {
      children.push_back(::fork());
      if (children.back() != 0) continue;
      const auto cache = DiskCache::open({.folder = folder(), .bytes = i % 2 == 0 ? 0 : 10 * kBlock});
      bool is_right = true;
      for (int j = 0; j < 3; ++j) {
        CachedStorage storage(cache, object_);
        is_right = is_right && fetch(storage, "s3://bucket/a").bytes == content && cache->flush();
      }
      ::_exit(is_right && cache->statistics().ended.empty() ? 0 : 1);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
    ::kill(children[round % 4], SIGKILL);
    for (size_t i = 0; i < children.size(); ++i) {
      int status = 0;
      ::waitpid(children[i], &status, 0);
      const bool was_killed = i == round % 4 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      EXPECT_TRUE(status == 0 || was_killed) << round << ": " << status;
      num_killed += was_killed ? 1 : 0;
    }
    ASSERT_TRUE(read().bytes == content) << round;
    EXPECT_EQ(statistics_.damaged_blocks, 0U) << "a block has its name when it is whole";
    if (round % 3 == 0) fs::remove_all(folder());
  }
  EXPECT_GT(num_killed, 0) << "all were at their end before";
}

}  // namespace
}  // namespace millrace::disk_cache_test
