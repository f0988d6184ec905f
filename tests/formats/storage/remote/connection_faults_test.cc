// Names that lead nowhere or late, connections that are not made, and such as end with each answer.
#include <array>
#include <atomic>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "millrace/formats/storage/remote/http_engine.h"
#include "tests/formats/storage/remote/fetch.h"
#include "tests/formats/storage/remote/object_server.h"
#include "tests/programs/host_names.h"
#include "tests/support/shard_driver.h"

namespace millrace::connection_faults_test {
namespace {

using test::content_of;
using test::fetch_by_clock;
using test::fetch_by_idle_clock;
using test::HostName;
using test::ObjectServer;
using test::ServedFault;
using test::ServedRequest;
using test::TimedFetch;
using testing::AllOf;
using testing::HasSubstr;
using Kind = ServedFault::Kind;

constexpr const char* kName = "objects.test";

// The URL of an object of a server, whose host has this name.
std::string named_url(const ObjectServer& server, const std::string& object) {
  std::string url = server.url(object);
  return url.replace(url.find("127.0.0.1"), std::string("127.0.0.1").size(), kName);
}

TEST(ConnectionFaults, ANameThatIsNotKnownIsOneErrorThatNamesIt) {
  const HostName name(kName, [] { return EAI_NONAME; });
  const std::string url = fmt::format("http://{}/a", kName);
  const TimedFetch timed = fetch_by_idle_clock(url);
  ASSERT_TRUE(timed.fetched.error);
  EXPECT_THAT(timed.fetched.error->message, AllOf(HasSubstr(kName), HasSubstr("attempts")));
  EXPECT_EQ(timed.fetched.error->shard, url);
  EXPECT_GE(timed.took, test::kEarliestEnd);
  EXPECT_LE(timed.took, test::kLatestEnd);
}

TEST(ConnectionFaults, ANameIsLookedUpAgainWhereThatFails) {
  std::atomic<int> asked = 0;
  const HostName name(kName, [&] { return asked++ < 3 ? EAI_AGAIN : 0; });
  ObjectServer server;
  server.put("a", content_of(300'000));
  const TimedFetch timed = fetch_by_clock(named_url(server, "a"));
  ASSERT_FALSE(timed.fetched.error) << timed.fetched.error->to_string();
  EXPECT_TRUE(timed.fetched.bytes == content_of(300'000));
  EXPECT_GT(asked, 3);
}

// The first one does not come back before all is read.
TEST(ConnectionFaults, ANameThatIsLookedUpWithoutEndHoldsUpNoOtherAttempt) {
  std::atomic<int> asked = 0;
  std::atomic<bool> is_over = false;
  const HostName name(kName, [&] {
    const bool is_first = asked++ == 0;
    while (is_first && !is_over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return 0;
  });
  ObjectServer server;
  server.put("a", content_of(300'000));
  const TimedFetch timed = fetch_by_clock(named_url(server, "a"));
  is_over = true;
  ASSERT_FALSE(timed.fetched.error) << timed.fetched.error->to_string();
  EXPECT_TRUE(timed.fetched.bytes == content_of(300'000));
  EXPECT_GE(timed.took, HttpDeadlines().first_byte);
}

TEST(ConnectionFaults, AnEngineEndsWhileANameIsLookedUp) {
  class Sink final : public HttpSink {
   public:
    void answered(HttpResponse response) noexcept override { failure = response.failure; }
    std::atomic<HttpFailure> failure = HttpFailure::kNone;
  };
  std::atomic<bool> is_asked = false;
  std::atomic<bool> is_over = false;
  const HostName name(kName, [&] {
    is_asked = true;
    while (!is_over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return EAI_AGAIN;
  });
  const auto sink = std::make_shared<Sink>();
  {
    HttpEngine engine({.clock = std::make_shared<test::ManualHttpClock>()});
    engine.start({.url = fmt::format("http://{}/a", kName)}, sink);
    while (!is_asked) std::this_thread::yield();
  }
  EXPECT_EQ(sink->failure, HttpFailure::kCancelled);
  is_over = true;
}

// A port at which more connections wait than the system keeps, so that it answers no further ones.
class FullPort {
 public:
  FullPort() {
    EXPECT_EQ(::bind(listening_, address(), sizeof(address_)), 0);
    EXPECT_EQ(::listen(listening_, 0), 0);
    socklen_t size = sizeof(address_);
    EXPECT_EQ(::getsockname(listening_, address(), &size), 0);
    for (int& waiting : waiting_) {
      waiting = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      static_cast<void>(::connect(waiting, address(), sizeof(address_)));
    }
  }
  ~FullPort() {
    for (const int waiting : waiting_) ::close(waiting);
    ::close(listening_);
  }
  FullPort(const FullPort&) = delete;
  FullPort& operator=(const FullPort&) = delete;
  int port() const { return ntohs(address_.sin_port); }

 private:
  sockaddr* address() { return reinterpret_cast<sockaddr*>(&address_); }

  sockaddr_in address_{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  const int listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::array<int, 16> waiting_{};
};

TEST(ConnectionFaults, AConnectionThatIsNeverMadeIsOneError) {
  const FullPort full;
  const std::string url = fmt::format("http://127.0.0.1:{}/a", full.port());
  const TimedFetch timed = fetch_by_idle_clock(url);
  ASSERT_TRUE(timed.fetched.error);
  EXPECT_THAT(timed.fetched.error->message, AllOf(HasSubstr("no answer came in time"), HasSubstr("attempts")));
  EXPECT_EQ(timed.fetched.error->shard, url);
  EXPECT_GE(timed.took, test::kEarliestEnd);
  EXPECT_LE(timed.took, test::kLatestEnd);
}

TEST(ConnectionFaults, AServerMayEndTheConnectionWithEachAnswer) {
  for (const Kind kind : {Kind::kConnectionClose, Kind::kSilentClose}) {
    ObjectServer server({.fault = [&](const ServedRequest&) { return ServedFault{.kind = kind}; }});
    server.put("a", content_of(500'000));
    RemoteStorage storage(test::hasty());
    const test::Fetched fetched = test::fetch(storage, server.url("a"));
    ASSERT_FALSE(fetched.error) << fetched.error->to_string();
    EXPECT_TRUE(fetched.bytes == content_of(500'000));
  }
}

}  // namespace
}  // namespace millrace::connection_faults_test
