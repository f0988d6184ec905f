#include "millrace/formats/storage/remote/object_lock.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/process_identity.h"
#include "millrace/formats/storage/remote/folder_upload.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "tests/formats/storage/remote/test_bucket.h"
#include "tests/formats/storage/remote/upload_client.h"

namespace millrace::object_lock_test {
namespace {

using std::chrono::milliseconds;
using test::BucketRequest;
using test::error_of_step;
using test::TestBucket;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr auto kNever = std::chrono::hours(10);

int64_t now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// What a process has written that holds it.
std::string lock_of(const std::string& id, const ProcessIdentity& process, int64_t renewed) {
  return nlohmann::json{{"id", id},
                        {"host", process.host},
                        {"process", process.process},
                        {"started", process.started},
                        {"machine", process.machine},
                        {"renewed", renewed}}
      .dump();
}

ProcessIdentity elsewhere() { return {.host = "elsewhere", .process = 7, .started = "1", .machine = "another"}; }

class ToldLines {
 protected:
  ObjectLockOptions options(milliseconds breaks_after = kNever) {
    return {
        .renew_every = kNever, .breaks_after = breaks_after, .look_every = milliseconds(1), .tell = [this](auto& line) {
          const std::lock_guard lock(mutex_);
          told_.push_back(line);
        }};
  }
  std::vector<std::string> told() const {
    const std::lock_guard lock(mutex_);
    return told_;
  }

  mutable std::mutex mutex_;
  std::vector<std::string> told_;
};

class ObjectLockTest : public testing::TestWithParam<TestBucket::Store>, public ToldLines {};
class ObjectLockWithoutConditions : public testing::Test, public ToldLines {};

TEST_P(ObjectLockTest, KeepsOthersOutAsLongAsItIsHeld) {
  TestBucket bucket(GetParam());
  {
    ObjectLock lock(bucket.url("run/LOCK"), "training in", options());
    lock.require_held();
    const auto error = error_of_step([&] { ObjectLock(bucket.url("run/LOCK"), "training in", options()); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(error->to_string(),
                AllOf(HasSubstr("another process is training in it: process"), HasSubstr("run/LOCK")));
    const ObjectLock other(bucket.url("run2/LOCK"), "training in", options());
    EXPECT_THAT(bucket.keys(), ElementsAre("run/LOCK", "run2/LOCK"));
  }
  EXPECT_THAT(bucket.keys(), IsEmpty());
  EXPECT_THAT(told(), IsEmpty());
}

TEST_P(ObjectLockTest, IsTakenFromAProcessOfThisMachineThatHasEnded) {
  TestBucket bucket(GetParam());
  ProcessIdentity ended = ProcessIdentity::own();
  ended.started += "0";  // another process of this number
  bucket.put("LOCK", lock_of("theirs", ended, now()));
  const ObjectLock lock(bucket.url("LOCK"), "training in", options());
  EXPECT_THAT(told(), IsEmpty());
}

TEST_P(ObjectLockTest, IsTakenWhenItWasNotRenewedForSoLong) {
  TestBucket bucket(GetParam());
  bucket.put("LOCK", lock_of("theirs", elsewhere(), now() - 100));
  const ObjectLock lock(bucket.url("LOCK"), "training in", options(std::chrono::seconds(100)));
  EXPECT_THAT(*bucket.content("LOCK"), testing::Not(HasSubstr("theirs")));
}

TEST_P(ObjectLockTest, IsWaitedForUntilItIsRenewed) {
  std::atomic<int> looks = 0;
  TestBucket* there = nullptr;
  TestBucket bucket(GetParam(), [&](const BucketRequest& request) {
    // On the server's thread, before the answer is made.
    if (request.method == "GET" && request.key == "LOCK" && ++looks == 5) {
      there->put("LOCK", lock_of("theirs", elsewhere(), now() + 1));
    }
    return false;
  });
  there = &bucket;
  bucket.put("LOCK", lock_of("theirs", elsewhere(), now()));
  const auto error = error_of_step([&] { ObjectLock(bucket.url("LOCK"), "training in", options()); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->to_string(), HasSubstr("process 7 on elsewhere"));
  EXPECT_EQ(looks, 5);
  ASSERT_THAT(told(), SizeIs(1));
  EXPECT_THAT(told()[0], AllOf(HasSubstr("is held by process 7 on elsewhere"), HasSubstr("waiting")));
}

TEST_P(ObjectLockTest, IsTakenWhenItIsGivenBackMeanwhile) {
  std::atomic<int> looks = 0;
  TestBucket* there = nullptr;
  TestBucket bucket(GetParam(), [&](const BucketRequest& request) {
    if (request.method == "GET" && request.key == "LOCK" && ++looks == 3) there->remove("LOCK");
    return false;
  });
  there = &bucket;
  bucket.put("LOCK", lock_of("theirs", elsewhere(), now()));
  const ObjectLock lock(bucket.url("LOCK"), "training in", options());
  EXPECT_TRUE(bucket.content("LOCK"));
}

// Two find none, or an old one, and write theirs: the store lets one of them.
TEST_P(ObjectLockTest, IsTakenByOneOfTwoThatBeginTogether) {
  for (const bool is_old : {false, true}) {
    TestBucket* there = nullptr;
    std::atomic<bool> came = false;
    TestBucket bucket(GetParam(), [&](const BucketRequest& request) {
      if (request.method == "PUT" && request.key == "LOCK" && !came.exchange(true)) {
        there->put("LOCK", lock_of("theirs", elsewhere(), now()));
      }
      return false;
    });
    there = &bucket;
    if (is_old) bucket.put("LOCK", lock_of("of yesterday", elsewhere(), now() - 100'000));
    const auto error =
        error_of_step([&] { ObjectLock(bucket.url("LOCK"), "training in", options(std::chrono::seconds(100))); });
    ASSERT_TRUE(error) << is_old;
    EXPECT_THAT(error->to_string(), HasSubstr("another process is training in it: process 7 on elsewhere"));
    EXPECT_THAT(*bucket.content("LOCK"), HasSubstr("theirs"));
  }
}

TEST_P(ObjectLockTest, IsRenewedAndLostToWhoeverTakesIt) {
  TestBucket bucket(GetParam());
  ObjectLockOptions hasty = options();
  hasty.renew_every = milliseconds(1);
  auto lock = std::make_unique<ObjectLock>(bucket.url("LOCK"), "training in", hasty);
  const auto writes = [&] {
    int count = 0;
    for (const BucketRequest& request : bucket.requests()) count += request.method == "PUT" && request.key == "LOCK";
    return count;
  };
  while (writes() < 5) std::this_thread::sleep_for(milliseconds(1));
  lock->require_held();
  bucket.put("LOCK", lock_of("theirs", elsewhere(), now()));
  std::string lost;
  while (lost.empty()) {
    if (const auto error = error_of_step([&] { lock->require_held(); })) lost = error->to_string();
  }
  EXPECT_THAT(lost, HasSubstr("another process has taken the lock: process 7 on elsewhere"));
  lock.reset();
  EXPECT_THAT(*bucket.content("LOCK"), HasSubstr("theirs")) << "it is not removed by whom it is not";
}

// Of a store that does not answer, or a machine that slept: whether another process has it is asked.
TEST_P(ObjectLockTest, IsAskedForWhenItWasNotRenewedForSoLong) {
  std::atomic<bool> refuses = false;
  TestBucket bucket(GetParam(), [&](const BucketRequest& request) { return refuses && request.key == "LOCK"; });
  ObjectLock lock(bucket.url("LOCK"), "training in", options(milliseconds(50)));
  lock.require_held();
  refuses = true;
  std::string why;
  while (why.empty()) {
    if (const auto error = error_of_step([&] { lock.require_held(); })) why = error->to_string();
  }
  EXPECT_THAT(why, HasSubstr("could not be renewed"));
  EXPECT_FALSE(lock.is_lost());
  refuses = false;
  lock.require_held();
  bucket.put("LOCK", lock_of("theirs", elsewhere(), now()));
  EXPECT_TRUE(error_of_step([&] { lock.require_held(); }));
  EXPECT_TRUE(lock.is_lost());
  EXPECT_THAT(*bucket.content("LOCK"), HasSubstr("theirs"));
}

TEST_P(ObjectLockTest, IsNotWaitedForWhereNobodyWants) {
  TestBucket bucket(GetParam());
  bucket.put("LOCK", lock_of("theirs", elsewhere(), now()));
  ObjectLockOptions hasty = options();
  hasty.waits = false;
  const auto error = error_of_step([&] { ObjectLock(bucket.url("LOCK"), "training in", hasty); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->to_string(), HasSubstr("process 7 on elsewhere, who has renewed its lock"));
}

TEST_P(ObjectLockTest, IsAnErrorWhereNobodyMayWrite) {
  TestBucket bucket(GetParam(), [](const BucketRequest& request) { return request.method == "PUT"; });
  const auto error = error_of_step([&] { ObjectLock(bucket.url("LOCK"), "training in", options()); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, ErrorCode::kIo);
  EXPECT_THAT(error->to_string(), HasSubstr("403"));
}

INSTANTIATE_TEST_SUITE_P(Stores, ObjectLockTest, testing::Values(TestBucket::Store::kS3, TestBucket::Store::kGoogle),
                         [](const auto& test) { return to_string(test.param); });

TEST_F(ObjectLockWithoutConditions, IsHeldWhileAFolderIsWrittenAndSaysOneLine) {
  TestBucket bucket(TestBucket::Store::kS3WithoutConditions);
  std::string id;
  {
    ObjectLock lock(bucket.url("run/LOCK"), "training in", options());
    const auto puts = [&] {
      return std::ranges::count_if(bucket.requests(), [](const BucketRequest& request) {
        return request.method == "PUT" && request.key == "run/LOCK";
      });
    };
    EXPECT_EQ(puts(), 2) << "refused with If-None-Match, and without it";
    lock.require_held();
    EXPECT_EQ(puts(), 4) << "refused with If-Match, and without it";
    for (const char* content : {"first", "second"}) {
      FolderUpload upload(bucket.url("run"), {.reuses = true});
      upload.put("a", content);
      lock.require_held();
      upload.commit();
      id = upload.id();
      EXPECT_EQ(find_whole_anywhere(bucket.url("run/a")), content);
    }
    EXPECT_EQ(puts(), 6);
    const auto error = error_of_step([&] { ObjectLock(bucket.url("run/LOCK"), "training in", options()); });
    ASSERT_TRUE(error);
    EXPECT_THAT(error->to_string(), HasSubstr("another process is training in it: process"));
    EXPECT_THAT(told(), ElementsAre(HasSubstr("run/LOCK: the store does not look at If-None-Match")));
  }
  EXPECT_THAT(bucket.keys(), ElementsAre("run/" + id + "/a", "run/COMMIT"));
}

TEST_F(ObjectLockWithoutConditions, IsNotTakenFromAnotherProcess) {
  TestBucket bucket(TestBucket::Store::kS3WithoutConditions);
  const std::string theirs = lock_of("theirs", elsewhere(), now());
  bucket.put("LOCK", theirs);
  ObjectLockOptions hasty = options();
  hasty.waits = false;
  const auto error = error_of_step([&] { ObjectLock(bucket.url("LOCK"), "training in", hasty); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->to_string(), HasSubstr("process 7 on elsewhere, who has renewed its lock"));
  EXPECT_EQ(bucket.content("LOCK"), theirs);
}

TEST(ObjectNow, HasTheAgeThatItsAnswerSays) {
  const auto age = [](const std::string& date, const std::string& modified) {
    HttpHead head{.status = 200};
    if (!date.empty()) head.headers.add("Date", date);
    if (!modified.empty()) head.headers.add("Last-Modified", modified);
    return age_by(head);
  };
  EXPECT_EQ(age("Sun, 29 Nov 2026 02:00:10 GMT", "Sun, 29 Nov 2026 01:59:00 GMT"), std::chrono::seconds(70));
  EXPECT_EQ(age("Sun, 29 Nov 2026 02:00:10 GMT", ""), std::nullopt);
  EXPECT_EQ(age("", "Sun, 29 Nov 2026 02:00:10 GMT"), std::nullopt);
  EXPECT_EQ(age("yesterday", "Sun, 29 Nov 2026 02:00:10 GMT"), std::nullopt);
}

}  // namespace
}  // namespace millrace::object_lock_test
