#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/remote/remote_storage.h"
#include "tests/formats/storage/remote/fetch.h"
#include "tests/formats/storage/remote/google_client.h"
#include "tests/formats/storage/remote/google_server.h"
#include "tests/formats/storage/remote/upload_client.h"

namespace millrace::gcs_upload_test {
namespace {

using test::content_of;
using test::error_of_step;
using test::fetch;
using test::google_options;
using test::GoogleFault;
using test::GoogleRequest;
using test::GoogleServer;
using test::write_in_pieces;
using test::write_object;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr size_t kChunk = 256 << 10;
const OutputOptions kChunks{.part_bytes = kChunk};

std::vector<GoogleRequest> uploads(const GoogleServer& server) {
  std::vector<GoogleRequest> found;
  for (GoogleRequest& request : server.requests()) {
    if (request.target.starts_with("/upload/")) found.push_back(std::move(request));
  }
  return found;
}

TEST(GcsUpload, WritesObjectsOfAllSizes) {
  GoogleServer server;
  server.put("bucket", "other", "");
  RemoteStorage storage(google_options(server));
  const std::string key = "dir/a b?%+&\xc3\xbc.bin";
  for (const size_t size : {size_t{0}, size_t{1}, kChunk - 1, kChunk, kChunk + 1, 2 * kChunk, 5 * kChunk + 7}) {
    const size_t before = uploads(server).size();
    const auto error = write_object(storage, "gs://bucket/" + key, content_of(size), kChunks);
    ASSERT_FALSE(error) << error->to_string();
    EXPECT_TRUE(server.content("bucket", key) == content_of(size)) << size;
    const size_t chunks = (size + kChunk - 1) / kChunk;
    EXPECT_EQ(uploads(server).size() - before, chunks <= 1 ? 1 : chunks + 1) << size;
  }
  EXPECT_EQ(server.num_sessions(), 0U);
  for (const GoogleRequest& request : uploads(server)) {
    EXPECT_EQ(request.headers.at("authorization"), "Bearer ya29.secret-1");
  }
}

TEST(GcsUpload, LeavesTheObjectBeforeUntilItIsCommitted) {
  GoogleServer server;
  server.put("bucket", "a", "before");
  RemoteStorage storage(google_options(server));
  const auto file = storage.create("gs://bucket/a", kChunks);
  write_in_pieces(*file, content_of(4 * kChunk));
  EXPECT_EQ(server.content("bucket", "a"), "before");
  file->commit();
  EXPECT_TRUE(server.content("bucket", "a") == content_of(4 * kChunk));
}

TEST(GcsUpload, LeavesNothingWithoutACommit) {
  for (const size_t size : {size_t{0}, kChunk, 4 * kChunk}) {
    GoogleServer server;
    server.put("bucket", "other", "");
    RemoteStorage storage(google_options(server));
    {
      const auto file = storage.create("gs://bucket/a", kChunks);
      write_in_pieces(*file, content_of(size));
    }
    EXPECT_EQ(server.content("bucket", "a"), std::nullopt);
    EXPECT_EQ(server.num_sessions(), 0U);
    // A chunk that was cancelled may come to the server after it.
    const std::vector<GoogleRequest> requests = uploads(server);
    EXPECT_EQ(std::ranges::count(requests, "DELETE", &GoogleRequest::method), size > kChunk ? 1 : 0);
  }
}

TEST(GcsUpload, WritesOnlyWhereThereIsNoObjectYet) {
  for (const size_t size : {kChunk, 3 * kChunk}) {
    GoogleServer server;
    server.put("bucket", "other", "");
    RemoteStorage storage(google_options(server));
    OutputOptions options = kChunks;
    options.if_absent = true;
    EXPECT_FALSE(write_object(storage, "gs://bucket/a", content_of(size), options));
    const auto error = write_object(storage, "gs://bucket/a", content_of(size - 1), options);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->shard, "gs://bucket/a");
    EXPECT_THAT(error->message,
                StartsWith("cannot write it: there is such an object already: status 412 (conditionNotMet): "));
    EXPECT_TRUE(server.content("bucket", "a") == content_of(size));
    EXPECT_EQ(server.num_sessions(), 0U);
  }
}

// Somebody else was faster, while the chunks were sent.
TEST(GcsUpload, WritesOnlyWhereThereIsNoObjectAtTheEnd) {
  GoogleServer server;
  server.put("bucket", "other", "");
  RemoteStorage storage(google_options(server));
  const auto file = storage.create("gs://bucket/a", {.if_absent = true, .part_bytes = kChunk});
  write_in_pieces(*file, content_of(3 * kChunk));
  server.put("bucket", "a", "faster");
  const auto error = error_of_step([&] { file->commit(); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message, StartsWith("cannot write it: there is such an object already: status 412"));
  EXPECT_EQ(server.content("bucket", "a"), "faster");
  EXPECT_EQ(server.num_sessions(), 0U);
}

TEST(GcsUpload, WhatCameThereOtherwiseIsRemoved) {
  for (const size_t size : {kChunk, 3 * kChunk}) {
    GoogleServer server({.fault = [&](const GoogleRequest& request) {
      const bool is_upload = request.target.starts_with("/upload/") && request.method != "DELETE";
      return GoogleFault{.kind = is_upload ? GoogleFault::Kind::kSpoil : GoogleFault::Kind::kNone};
    }});
    server.put("bucket", "other", "");
    RemoteStorage storage(google_options(server));
    const auto error = write_object(storage, "gs://bucket/a", content_of(size), kChunks);
    ASSERT_TRUE(error);
    EXPECT_THAT(error->message, AllOf(HasSubstr("the CRC32C of what came there is "), HasSubstr("; it was removed")));
    EXPECT_EQ(server.content("bucket", "a"), std::nullopt);
  }
}

// Before anybody sees it.
TEST(GcsUpload, WhatIsDamagedOnItsWayLeavesTheObjectBefore) {
  for (const size_t size : {kChunk, 3 * kChunk}) {
    GoogleServer server({.fault = [&](const GoogleRequest& request) {
      const bool is_upload = request.target.starts_with("/upload/") && request.method != "DELETE";
      return GoogleFault{.kind = is_upload ? GoogleFault::Kind::kSpoilOnWay : GoogleFault::Kind::kNone};
    }});
    server.put("bucket", "a", "before");
    RemoteStorage storage(google_options(server));
    const auto error = write_object(storage, "gs://bucket/a", content_of(size), kChunks);
    ASSERT_TRUE(error);
    EXPECT_THAT(error->message, HasSubstr("status 400 (invalid): Provided CRC32C does not match"));
    EXPECT_EQ(server.content("bucket", "a"), "before");
    EXPECT_EQ(server.num_sessions(), 0U);
  }
}

TEST(GcsUpload, SaysWhatIsRefusedAndToWhom) {
  GoogleServer server;
  RemoteStorage storage(google_options(server));
  for (const size_t size : {kChunk, 3 * kChunk}) {
    const auto error = write_object(storage, "gs://nowhere/a", content_of(size), kChunks);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->message,
              fmt::format("cannot write it: status 404 (notFound): The specified bucket does not exist.; asked of {}, "
                          "credentials: metadata server {}",
                          server.endpoint(), server.host()));
  }
  const auto error = error_of_step([&] { (void)storage.create("gs://bucket/a", {.part_bytes = 1000}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error->message, HasSubstr("part_bytes is 1000, which is no multiple of 262144"));
}

TEST(GcsUpload, IsReadAfterwardsAndNotWhatWasListed) {
  GoogleServer server;
  server.put("bucket", "a", content_of(150'000));
  RemoteStorage storage(google_options(server));
  ASSERT_THAT(storage.glob("gs://bucket/*"), ElementsAre("gs://bucket/a"));
  ASSERT_FALSE(write_object(storage, "gs://bucket/a", content_of(2 * kChunk), kChunks));
  EXPECT_EQ(storage.listed_size("gs://bucket/a"), std::nullopt);
  EXPECT_TRUE(fetch(storage, "gs://bucket/a").bytes == content_of(2 * kChunk));
}

}  // namespace
}  // namespace millrace::gcs_upload_test
