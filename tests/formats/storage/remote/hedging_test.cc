// Reads that are slow and are asked for a second time, by a clock that the tests turn.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/remote/remote_storage.h"
#include "tests/formats/storage/remote/fetch.h"
#include "tests/formats/storage/remote/manual_http_clock.h"
#include "tests/formats/storage/remote/object_server.h"

namespace millrace::hedging_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::content_of;
using test::ManualHttpClock;
using test::ObjectServer;
using test::ReadAndOpenSink;
using test::ServedFault;
using test::ServedRequest;
using testing::HasSubstr;
using Kind = ServedFault::Kind;

// One object, of which requests go wrong as `faults` say by their number. Opening it is the first request, and each
// read of more than its first 64 KiB one more.
class Hedging : public testing::Test {
 protected:
  static constexpr size_t kSize = 500'000;
  static constexpr uint64_t kFrom = 100'000;
  static constexpr seconds kUntilHedged{8};              // after 2 s without a byte, or 5 s in the body
  static constexpr milliseconds kUntilDeadline{16'000};  // of the first one, and it is asked again

  void SetUp() override { server_.put("a", content_of(kSize)); }

  std::shared_ptr<File> open(std::chrono::nanoseconds by = kUntilHedged) {
    const auto sink = std::make_shared<ReadAndOpenSink>();
    storage().open(server_.url("a"), sink);
    turn_until([&] { return sink->told == 1; }, by);
    if (sink->open.file == nullptr) error_ = sink->open.error.error.message;
    return sink->open.file;
  }
  // Whether the bytes are those of the object.
  bool read(File& file, std::chrono::nanoseconds by = kUntilHedged) {
    const auto sink = std::make_shared<ReadAndOpenSink>();
    std::vector<std::byte> room(kSize - kFrom);
    file.read(kFrom, room, sink);
    turn_until([&] { return sink->told == 1; }, by);
    if (!sink->read.ok) {
      error_ = sink->read.error.error.message;
      return false;
    }
    return sink->read.bytes == room.size() &&
           std::memcmp(room.data(), content_of(kSize).data() + kFrom, room.size()) == 0;
  }
  // The clock stands when it was turned by so much: who is slow then has no deadline.
  void turn_until(const std::function<bool()>& done, std::chrono::nanoseconds by) {
    const std::chrono::nanoseconds end = clock_->now() + by;
    const auto given_up_at = std::chrono::steady_clock::now() + seconds(60);
    while (!done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), given_up_at) << "nothing moves any more";
      if (clock_->now() < end) clock_->turn(milliseconds(50));
      engine_->look_at_clock();
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  RemoteStorage& storage() {
    if (storage_ == nullptr) {
      engine_ = std::make_shared<HttpEngine>(HttpEngineOptions{.hedged_share = share_, .clock = clock_});
      RemoteOptions options = test::hasty();
      options.engine = engine_;
      options.hedges_reads = hedges_;
      storage_ = std::make_unique<RemoteStorage>(options);
    }
    return *storage_;
  }

  // Of requests by their numbers; `at_request` is called on the server's thread.
  void set_faults(std::map<uint64_t, Kind> faults, std::function<void(const ServedRequest&)> at_request = nullptr) {
    const std::lock_guard lock(mutex_);
    faults_ = std::move(faults);
    at_request_ = std::move(at_request);
  }

  double share_ = 0.05;
  bool hedges_ = true;
  const std::shared_ptr<ManualHttpClock> clock_ = std::make_shared<ManualHttpClock>();
  std::shared_ptr<HttpEngine> engine_;
  std::unique_ptr<RemoteStorage> storage_;
  std::string error_;
  std::atomic<bool> goes_on_ = false;  // answers that stand still in their bodies

 private:
  ServedFault fault(const ServedRequest& request) {
    std::unique_lock lock(mutex_);
    const auto found = faults_.find(request.number);
    const Kind kind = found == faults_.end() ? Kind::kNone : found->second;
    const auto at_request = at_request_;
    lock.unlock();
    if (at_request) at_request(request);
    return {.kind = kind, .status = 503, .goes_on = [this] { return goes_on_.load(); }};
  }

  std::mutex mutex_;
  std::map<uint64_t, Kind> faults_;
  std::function<void(const ServedRequest&)> at_request_;

 protected:
  ObjectServer server_{{.fault = [this](const ServedRequest& request) { return fault(request); }}};
};

TEST_F(Hedging, AsksForWhatStandsStillASecondTime) {
  for (const Kind kind : {Kind::kStallBeforeHead, Kind::kStallInBody, Kind::kStallAfterAByte}) {
    const size_t before = server_.requests().size();
    set_faults({{before + 1, kind}});
    const auto file = open();
    const HttpStatistics statistics = engine_->statistics();
    ASSERT_TRUE(read(*file)) << error_;
    EXPECT_EQ(server_.requests().size(), before + 3);
    EXPECT_EQ((engine_->statistics() - statistics).hedged, 1U);
    EXPECT_EQ((engine_->statistics() - statistics).requests, 2U);
    EXPECT_EQ((engine_->statistics() - statistics).retries, 0U);
  }
}

TEST_F(Hedging, OpensWhatStandsStill) {
  set_faults({{0, Kind::kStallInBody}});
  const auto file = open();
  ASSERT_TRUE(file) << error_;
  EXPECT_EQ(file->size(), kSize);
  EXPECT_TRUE(read(*file)) << error_;
}

TEST_F(Hedging, WaitsForTheSecondWhereTheFirstIsGivenUp) {
  set_faults({{1, Kind::kStallBeforeHead}}, [this](const ServedRequest& request) {
    while (request.number == 2 && clock_->now() < kUntilDeadline) std::this_thread::yield();
  });
  const auto file = open();
  ASSERT_TRUE(read(*file, kUntilDeadline)) << error_;
  EXPECT_EQ(server_.requests().size(), 3U);
  EXPECT_EQ(engine_->statistics().retries, 0U);
}

// What the first one has brought is not asked for again.
TEST_F(Hedging, GoesOnFromTheOneThatHadMore) {
  set_faults({{1, Kind::kStallInBody}, {2, Kind::kStallBeforeHead}});
  const auto file = open();
  ASSERT_TRUE(read(*file, seconds(25))) << error_;
  const auto requests = server_.requests();
  ASSERT_EQ(requests.size(), 4U);
  EXPECT_EQ(requests[1].headers.at("range"), "bytes=100000-499999");
  EXPECT_EQ(requests[2].headers.at("range"), "bytes=100000-499999");
  EXPECT_EQ(requests[3].headers.at("range"), "bytes=300000-499999");
  EXPECT_EQ(engine_->statistics().retries, 1U);
}

// Of a head that comes late there is none where there was one for the wait before.
TEST_F(Hedging, IsDoneOnceForEachRead) {
  set_faults({{1, Kind::kStallInBody}, {2, Kind::kStallInBody}});
  const auto file = open();
  ASSERT_TRUE(read(*file, seconds(25))) << error_;
  EXPECT_EQ(engine_->statistics().hedged, 1U);
}

TEST_F(Hedging, CountsARetryOnce) {
  set_faults({{1, Kind::kStatus}, {2, Kind::kStallBeforeHead}});
  const auto file = open();
  ASSERT_TRUE(read(*file)) << error_;
  EXPECT_EQ(engine_->statistics().requests, 4U);
  EXPECT_EQ(engine_->statistics().retries, 1U);
  EXPECT_EQ(engine_->statistics().hedged, 1U);
}

TEST_F(Hedging, LeavesTheFirstWhereTheSecondFails) {
  for (const Kind kind : {Kind::kStatus, Kind::kResetBeforeHead, Kind::kResetInBody}) {
    const size_t before = server_.requests().size();
    set_faults({{before + 1, Kind::kStallBeforeHead}, {before + 2, kind}});
    const auto file = open();
    ASSERT_TRUE(read(*file, kUntilDeadline)) << error_;
    EXPECT_EQ(server_.requests().size(), before + 4);
  }
}

// The bytes of two versions would be mixed: the first request has those of one, the second one those of another.
TEST_F(Hedging, MixesNoTwoVersions) {
  set_faults({{0, Kind::kStallInBody}}, [this](const ServedRequest& request) {
    if (request.number == 1) server_.put("a", std::string(kSize, 'x'));
  });
  EXPECT_EQ(open(kUntilDeadline), nullptr);
  EXPECT_THAT(error_, HasSubstr("it was changed while it was read: was "));
}

// The first one goes on, with bytes before those that a proxy has packed.
TEST_F(Hedging, MixesNoBytesThatMayBePackedWithOthers) {
  for (const Kind kind : {Kind::kEncodedHalf, Kind::kEncodedCut}) {
    goes_on_ = false;
    const size_t before = server_.requests().size();
    set_faults({{before + 1, Kind::kStallInBody}, {before + 2, kind}});
    const auto file = open(seconds(0));
    const auto sink = std::make_shared<ReadAndOpenSink>();
    std::vector<std::byte> room(kSize - kFrom);
    file->read(kFrom, room, sink);
    // All of the second one has come when it is counted.
    const uint64_t counted = engine_->statistics().requests;
    turn_until([&] { return engine_->statistics().requests > counted; }, kUntilHedged);
    goes_on_ = true;
    turn_until([&] { return sink->told == 1; }, seconds(0));
    ASSERT_TRUE(sink->read.ok) << sink->read.error.error.message;
    EXPECT_EQ(sink->read.bytes, room.size());
    EXPECT_EQ(std::memcmp(room.data(), content_of(kSize).data() + kFrom, room.size()), 0);
    EXPECT_EQ(server_.requests().size(), before + 3);
  }
}

TEST_F(Hedging, SeesAChangeBetweenBoth) {
  set_faults({{1, Kind::kStallInBody}}, [this](const ServedRequest& request) {
    if (request.number == 2) server_.put("a", std::string(kSize, 'x'));
  });
  const auto file = open();
  EXPECT_FALSE(read(*file, kUntilDeadline));
  EXPECT_THAT(error_, HasSubstr("it was changed while it was read: was "));
}

TEST_F(Hedging, IsCancelledWithBothInFlight) {
  set_faults({{1, Kind::kStallInBody}, {2, Kind::kStallInBody}});
  const auto file = open();
  const auto sink = std::make_shared<ReadAndOpenSink>();
  auto room = std::make_unique<std::vector<std::byte>>(kSize - kFrom);
  file->read(kFrom, *room, sink);
  turn_until([&] { return server_.requests().size() == 3; }, kUntilHedged);
  file->cancel();
  ASSERT_TRUE(sink->flag.wait());
  EXPECT_FALSE(sink->read.ok);
  room = nullptr;  // nothing is written there from now on
  set_faults({});
  EXPECT_TRUE(read(*open())) << error_;
  EXPECT_EQ(sink->told, 1);
}

// Whoever was told has the room for himself, also where a server goes on with an answer that nobody waits for any more:
// of the first request where the second one was faster, of both where the read is cancelled, of one that was given up.
TEST_F(Hedging, WritesNothingOnceItHasTold) {
  struct Case {
    const char* name;
    std::map<uint64_t, Kind> later;  // faults of the requests after the first one, which stands still in its body
    bool is_cancelled = false;
    bool is_read = false;
    seconds by = kUntilHedged;
  };
  for (const Case& tested :
       {Case{.name = "the second was faster", .later = {}, .is_read = true},
        Case{.name = "cancelled", .later = {{2, Kind::kStallInBody}}, .is_cancelled = true},
        Case{.name = "failed", .later = {{2, Kind::kStallInBody}, {3, Kind::kWrongContentRange}}, .by = seconds(25)}}) {
    SCOPED_TRACE(tested.name);
    goes_on_ = false;
    const size_t before = server_.requests().size();
    std::map<uint64_t, Kind> faults{{before + 1, Kind::kStallInBody}};
    for (const auto& [number, kind] : tested.later) faults[before + number] = kind;
    set_faults(std::move(faults));
    const auto file = open(seconds(0));
    const auto sink = std::make_shared<ReadAndOpenSink>();
    std::vector<std::byte> room(kSize - kFrom);
    file->read(kFrom, room, sink);
    if (tested.is_cancelled) {
      turn_until([&] { return server_.requests().size() == before + 3; }, tested.by);
      file->cancel();
    }
    turn_until([&] { return sink->told == 1; }, tested.by);
    EXPECT_EQ(sink->read.ok, tested.is_read);
    constexpr std::byte kCanary{0xA5};
    std::ranges::fill(room, kCanary);
    goes_on_ = true;
    turn_until([&] { return server_.in_flight() == 0; }, seconds(0));
    // By then the engine has looked at all that came before.
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(read(*open(), seconds(0))) << error_;
    EXPECT_TRUE(std::ranges::all_of(room, [](std::byte byte) { return byte == kCanary; }));
    EXPECT_EQ(sink->told, 1);
  }
}

TEST_F(Hedging, IsNotDoneWhereItIsNotWanted) {
  share_ = 0;
  set_faults({{1, Kind::kStallBeforeHead}});
  const auto file = open();
  ASSERT_TRUE(read(*file, kUntilDeadline)) << error_;
  EXPECT_GE(clock_->now(), seconds(15));
  EXPECT_EQ(engine_->statistics().hedged, 0U);
}

TEST_F(Hedging, IsAnOptionOfTheStorage) {
  hedges_ = false;
  set_faults({{0, Kind::kStallBeforeHead}, {2, Kind::kStallBeforeHead}});
  const auto file = open(kUntilDeadline);
  ASSERT_TRUE(file) << error_;
  ASSERT_TRUE(read(*file, kUntilDeadline)) << error_;
  EXPECT_GE(clock_->now(), seconds(30));
  EXPECT_EQ(engine_->statistics().hedged, 0U);
}

TEST_F(Hedging, IsDoneForAFewOfManyThatStandStill) {
  std::map<uint64_t, Kind> all;
  for (uint64_t number = 1; number < 32; ++number) all[number] = Kind::kStallBeforeHead;
  set_faults(all);
  std::vector<std::shared_ptr<File>> files;
  std::vector<std::vector<std::byte>> rooms(10, std::vector<std::byte>(1000));
  const auto sink = std::make_shared<ReadAndOpenSink>();
  files.push_back(open());
  const auto more = std::make_shared<ReadAndOpenSink>();
  for (size_t i = 1; i < rooms.size(); ++i) {  // of the same object: nothing is asked
    storage().open(server_.url("a"), more);
    ASSERT_TRUE(more->flag.wait());
    files.push_back(more->open.file);
  }
  for (size_t i = 0; i < rooms.size(); ++i) files[i]->read(kFrom + 1000 * i, rooms[i], sink);
  turn_until([&] { return server_.requests().size() == 15; }, kUntilHedged);
  for (const auto& file : files) file->cancel();
  turn_until([&] { return sink->told == 10; }, seconds(0));
  EXPECT_EQ(server_.requests().size(), 15U);
}

}  // namespace
}  // namespace millrace::hedging_test
