// Indexes beside shards at URLs.
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/tfrecord/index/index.h"
#include "millrace/formats/tfrecord/index/index_builder.h"
#include "millrace/formats/tfrecord/index/index_loader.h"
#include "millrace/formats/tfrecord/writer.h"
#include "tests/formats/storage/remote/fetch.h"
#include "tests/formats/storage/remote/object_server.h"
#include "tests/formats/storage/remote/s3_client.h"
#include "tests/support/temporary_folder.h"

namespace millrace::shard_index_test {
namespace {

using test::ObjectServer;
using test::ServedRequest;

std::string shard() {
  const test::TemporaryFolder folder;
  RecordWriter writer(folder.path("a"), {.compression = Compression::kNone});
  for (int r = 0; r < 10; ++r) writer.write(fmt::format("record {}", r));
  writer.close();
  return test::read_file(folder.path("a"));
}

// HTTP cannot say what there is: it is asked for, once.
TEST(ShardIndex, IsReadOfAUrlWhereThereIsOne) {
  ObjectServer server;
  server.put("a.tfrecord", shard());
  RemoteStorage storage(test::hasty());
  EXPECT_EQ(read_shard_index(storage, server.url("a.tfrecord")), nullptr);
  EXPECT_EQ(server.requests().size(), 1U);
  server.put("a.tfrecord.index", build_shard_index(storage, server.url("a.tfrecord")).serialize());
  const auto index = load_shard_index(storage, server.url("a.tfrecord"));
  ASSERT_NE(index, nullptr);
  EXPECT_EQ(index->num_records(), 10U);
}

TEST(ShardIndex, IsNoneOfAUrlWithAQuery) {
  ObjectServer server;
  server.put("a.tfrecord", shard());
  RemoteStorage storage(test::hasty());
  const std::string url = server.url("a.tfrecord") + "?signature=x";
  EXPECT_EQ(read_shard_index(storage, url), nullptr);
  IndexLoader loader(storage, url, [] {});
  EXPECT_TRUE(loader.done());
  EXPECT_TRUE(server.requests().empty());
}

TEST(ShardIndex, IsReadOfABucketThatMayNotBeListed) {
  test::S3ServiceOptions service = test::marked_service();
  service.allows_listing = false;
  ObjectServer server({.s3 = service});
  server.put("bucket/a.tfrecord", shard());
  RemoteStorage storage(test::s3_options(server));
  EXPECT_EQ(read_shard_index(storage, "s3://bucket/a.tfrecord"), nullptr);
  server.put("bucket/a.tfrecord.index", build_shard_index(storage, "s3://bucket/a.tfrecord").serialize());
  const auto index = read_shard_index(storage, "s3://bucket/a.tfrecord");
  ASSERT_NE(index, nullptr);
  EXPECT_EQ(index->num_records(), 10U);
}

}  // namespace
}  // namespace millrace::shard_index_test
