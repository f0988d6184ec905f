// Files of a folder in a bucket that one object stands for, and those that stay without a local one.
#include "millrace/formats/storage/remote/folder_upload.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/remote/folder_download.h"
#include "millrace/formats/storage/remote/folder_leftovers.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "tests/formats/storage/remote/test_bucket.h"
#include "tests/support/temporary_folder.h"

namespace millrace::folder_upload_test {
namespace {

namespace fs = std::filesystem;

using test::BucketRequest;
using test::TestBucket;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class FolderUploadTest : public testing::TestWithParam<TestBucket::Store> {
 protected:
  // A file that was written an hour ago, or now.
  std::string write(const std::string& name, const std::string& content, bool is_old = true) const {
    std::string path = local_.path(name);
    test::write_file(path, content);
    if (is_old) fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
    return path;
  }
  std::string link(const std::string& path, const std::string& name) const {
    fs::create_hard_link(path, local_.path(name));
    return local_.path(name);
  }
  // Exchanges the folder for these names and files, and gives how many objects were written beside COMMIT.
  int puts_of(const std::vector<std::pair<std::string, std::string>>& files) {
    const auto num_puts = [&] {
      int count = 0;
      for (const BucketRequest& request : bucket_.requests()) {
        count += request.method == "PUT" && request.key != "run/COMMIT";
      }
      return count;
    };
    const int before = num_puts();
    FolderUpload upload(url_, {.reuses = true, .checksums = checksums_});
    for (const auto& [name, path] : files) upload.add(name, path);
    upload.commit();
    return num_puts() - before;
  }
  std::string read(const std::string& name) const { return read_whole_anywhere(path_in(url_, name)); }
  std::vector<std::string> leftovers() const { return folder_leftovers(url_ + "/", std::chrono::seconds(0)).objects; }

  const test::TemporaryFolder local_;
  TestBucket bucket_{GetParam()};
  const std::string url_ = bucket_.url("run");
  const std::shared_ptr<FileChecksums> checksums_ = std::make_shared<FileChecksums>();
};

// As a kept model is in each checkpoint.
TEST_P(FolderUploadTest, SendsLinksToOneFileOnce) {
  const std::string file = write("file", "bytes");
  const std::string other = write("other", "other");
  EXPECT_EQ(puts_of({{"a", file}, {"b/a", link(file, "link")}, {"c", other}}), 2);
  EXPECT_THAT(bucket_.keys("run/"), SizeIs(3));
  for (const char* name : {"a", "b/a"}) EXPECT_EQ(read(name), "bytes") << name;
  EXPECT_THAT(leftovers(), IsEmpty());
  EXPECT_THAT(download_folder(url_, local_.path("copy")), ElementsAre("a", "b/a", "c"));
  EXPECT_EQ(test::read_file(local_.path("copy/b/a")), "bytes");

  EXPECT_EQ(puts_of({{"a", file}, {"b/a", local_.path("link")}, {"d/a", file}, {"c", other}}), 0);
  EXPECT_EQ(puts_of({{"b/a", file}, {"d/a", local_.path("link")}}), 0) << "the name is gone that the object has";
  EXPECT_THAT(bucket_.keys("run/"), SizeIs(2));
  for (const char* name : {"b/a", "d/a"}) EXPECT_EQ(read(name), "bytes") << name;
  EXPECT_THAT(leftovers(), IsEmpty());
  EXPECT_THAT(download_folder(url_, local_.path("again")), ElementsAre("b/a", "d/a"));

  EXPECT_EQ(puts_of({{"c", other}}), 1);
  EXPECT_THAT(bucket_.keys("run/"), SizeIs(2)) << "with its last name the object goes";
}

TEST_P(FolderUploadTest, SendsEachOfFilesThatOnlyLookAlike) {
  const std::string file = write("file", "bytes");
  EXPECT_EQ(puts_of({{"a", file}, {"b", write("same", "bytes")}, {"c", write("other", "other")}}), 3);
  EXPECT_EQ(read("c"), "other");
  // What may be written to.
  const std::string young = write("young", "young", false);
  fs::last_write_time(young, fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(puts_of({{"a", young}, {"b", link(young, "link")}}), 2);
}

TEST_P(FolderUploadTest, KeepsFilesThatAreNotAtHand) {
  const std::string file = write("file", "bytes");
  EXPECT_EQ(puts_of({{"a", file}, {"b", write("second", "second")}, {"c", write("third", "third")}}), 3);
  FolderUpload upload(url_, {.reuses = true});
  ASSERT_THAT(upload.earlier().files, SizeIs(3));
  upload.keep(upload.earlier().files[1]);
  upload.add("d", file);
  upload.commit();
  EXPECT_THAT(download_folder(url_, local_.path("copy")), ElementsAre("b", "d"));
  EXPECT_EQ(read("b"), "second");
  EXPECT_THAT(bucket_.keys("run/"), SizeIs(3));
}

INSTANTIATE_TEST_SUITE_P(Stores, FolderUploadTest, testing::Values(TestBucket::Store::kS3, TestBucket::Store::kGoogle),
                         [](const auto& test) { return to_string(test.param); });

}  // namespace
}  // namespace millrace::folder_upload_test
