// Certificates of servers: which are believed, and that nobody is asked in the clear who was meant to be asked by TLS.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <boost/asio.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): setenv

#include "millrace/formats/storage/remote/http_engine.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "tests/formats/storage/remote/certificate.h"
#include "tests/formats/storage/remote/fetch.h"
#include "tests/formats/storage/remote/https_server.h"
#include "tests/formats/storage/remote/object_server.h"
#include "tests/formats/storage/remote/s3_client.h"
#include "tests/support/temporary_folder.h"

namespace millrace::https_test {
namespace {

using test::Certificate;
using test::CertificateAuthority;
using test::content_of;
using test::fetch;
using test::Fetched;
using test::hasty;
using test::HttpsServer;
using test::ObjectServer;
using test::ServedFault;
using test::ServedRequest;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr size_t kBytes = 300'000;

constexpr const char* kVariables[] = {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"};

class Https : public testing::Test {
 protected:
  Https() {
    for (const char* variable : kVariables) {
      if (const char* const value = ::getenv(variable)) before_[variable] = value;
      ::unsetenv(variable);
    }
    test::write_file(ca_file_, authority_.certificate());
  }
  ~Https() override {
    for (const char* variable : kVariables) ::unsetenv(variable);
    for (const auto& [variable, value] : before_) ::setenv(variable.c_str(), value.c_str(), 1);
  }

  // A storage that believes the authorities of a file.
  static RemoteOptions believing(const std::string& ca_file) {
    RemoteOptions options = hasty();
    options.retries.give_up_after = std::chrono::milliseconds(500);
    options.engine = std::make_shared<HttpEngine>(HttpEngineOptions{.ca_file = ca_file});
    return options;
  }

  static Fetched fetch_from(const HttpsServer& server, const RemoteOptions& options) {
    RemoteStorage storage(options);
    return fetch(storage, server.url("a.tfrecord"));
  }

  // That it is given up at once, for this reason.
  void expect_refused(const Certificate& certificate, const std::string& ca_file, const std::string& reason) {
    const HttpsServer server({.certificate = certificate, .content = content_of(kBytes)});
    const Fetched fetched = fetch_from(server, believing(ca_file));
    ASSERT_TRUE(fetched.error) << reason;
    EXPECT_EQ(fetched.error->shard, server.url("a.tfrecord"));
    EXPECT_THAT(fetched.error->message, AllOf(HasSubstr(reason), Not(HasSubstr("attempts"))));
    EXPECT_LE(server.connections(), 1U);
    EXPECT_EQ(server.requests(), 0U);
  }

  const CertificateAuthority authority_;
  const test::TemporaryFolder folder_;
  const std::string ca_file_ = folder_.path("authorities.pem");
  std::map<std::string, std::string> before_;  // the variables of the test
};

TEST_F(Https, ReadsFromAServerWhoseAuthorityIsInTheFile) {
  const HttpsServer server({.certificate = authority_.issue(), .content = content_of(kBytes)});
  const Fetched fetched = fetch_from(server, believing(ca_file_));
  ASSERT_FALSE(fetched.error) << fetched.error->to_string();
  EXPECT_TRUE(fetched.bytes == content_of(kBytes));
}

TEST_F(Https, FindsTheFileInTheEnvironmentOfTheProcess) {
  const HttpsServer server({.certificate = authority_.issue(), .content = content_of(kBytes)});
  const Fetched without = fetch_from(server, hasty());
  ASSERT_TRUE(without.error);
  EXPECT_THAT(without.error->message, HasSubstr("certificate"));
  for (const char* variable : kVariables) {
    ::setenv(variable, ca_file_.c_str(), 1);
    const Fetched fetched = fetch_from(server, hasty());
    EXPECT_FALSE(fetched.error) << variable << ": " << fetched.error->to_string();
    EXPECT_TRUE(fetched.bytes == content_of(kBytes)) << variable;
    ::unsetenv(variable);
  }
}

// Such as one that wants to be told who asks: 407 is no trouble that passes.
TEST_F(Https, AProxyThatRefusesIsNotAskedAgain) {
  for (const int status : {403, 407, 503}) {
    const ObjectServer proxy({.fault = [status](const ServedRequest&) {
      return ServedFault{.kind = ServedFault::Kind::kStatus, .status = status};
    }});
    ::setenv("https_proxy", proxy.url("").c_str(), 1);
    RemoteStorage storage(believing(ca_file_));
    const Fetched fetched = fetch(storage, "https://millrace.invalid/a.tfrecord");
    ::unsetenv("https_proxy");
    ASSERT_TRUE(fetched.error);
    EXPECT_THAT(fetched.error->message,
                AllOf(HasSubstr(std::to_string(status)), HasSubstr("the proxy refuses the connection")));
    ASSERT_FALSE(proxy.requests().empty());
    EXPECT_EQ(proxy.requests().front().method, "CONNECT");
    EXPECT_EQ(proxy.requests().size() > 1, status == 503) << proxy.requests().size();
  }
}

// Which libcurl repeats where it does not understand the URL.
TEST_F(Https, ThePasswordOfAProxyIsNotShown) {
  for (const char* url : {"http://user:hidden/key@127.0.0.1:1", "ftp://user:hidden'key@127.0.0.1:1"}) {
    ::setenv("https_proxy", url, 1);
    RemoteStorage storage(believing(ca_file_));
    const Fetched fetched = fetch(storage, "https://millrace.invalid/a.tfrecord");
    ::unsetenv("https_proxy");
    ASSERT_TRUE(fetched.error) << url;
    EXPECT_THAT(fetched.error->message, AllOf(HasSubstr("Unsupported proxy s"), HasSubstr("its URL"),
                                              Not(HasSubstr("hidden")), Not(HasSubstr("key"))));
  }
}

// The first of the three that is set, whatever the others name.
TEST_F(Https, TakesTheFileOfAwsBeforeThatOfCurlAndThatOfOpenSsl) {
  std::map<std::string, std::string> variables;
  const Environment environment = [&](std::string_view name) {
    const auto found = variables.find(std::string(name));
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  EXPECT_EQ(ca_file_in(environment), "");
  for (const char* variable : {"SSL_CERT_FILE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"}) {
    variables[variable] = std::string("file of ") + variable;
    EXPECT_EQ(ca_file_in(environment), variables[variable]);
  }
}

TEST_F(Https, RefusesAnAuthorityThatIsNotInTheFile) {
  const CertificateAuthority other("another authority");
  expect_refused(other.issue(), ca_file_, "unable to get local issuer certificate");
  expect_refused(CertificateAuthority().issue(), ca_file_, "OpenSSL");  // of the same name, with another key
}

TEST_F(Https, RefusesAServerThatSpeaksNoTls) {
  namespace asio = boost::asio;
  asio::io_context context;
  asio::ip::tcp::acceptor acceptor(context, {asio::ip::make_address("127.0.0.1"), 0});
  std::thread answering([&] {
    asio::ip::tcp::socket socket(context);
    acceptor.accept(socket);
    asio::write(socket, asio::buffer(std::string("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")));
    char rest[1000];
    boost::system::error_code ended;
    while (!ended) socket.read_some(asio::buffer(rest), ended);
  });
  RemoteStorage storage(believing(ca_file_));
  const Fetched fetched = fetch(storage, fmt::format("https://127.0.0.1:{}/a", acceptor.local_endpoint().port()));
  answering.join();
  ASSERT_TRUE(fetched.error);
  EXPECT_THAT(fetched.error->message, AllOf(HasSubstr("wrong version number"), Not(HasSubstr("attempts"))));
}

TEST_F(Https, RefusesACertificateOfAnotherName) {
  expect_refused(authority_.issue({.name = "DNS:store.example"}), ca_file_,
                 "no alternative certificate subject name matches target");
}

TEST_F(Https, RefusesACertificateOfAnotherTime) {
  expect_refused(authority_.issue({.ends = std::chrono::hours(-24)}), ca_file_, "certificate has expired");
  expect_refused(authority_.issue({.begins = std::chrono::hours(24)}), ca_file_, "certificate is not yet valid");
}

TEST_F(Https, RefusesToGoOnWithoutTheFileOfAuthorities) {
  const std::string missing = folder_.path("missing.pem");
  expect_refused(authority_.issue(), missing, missing);
  test::write_file(ca_file_, "no certificate");
  expect_refused(authority_.issue(), ca_file_, ca_file_);
}

TEST_F(Https, FollowsARedirectToHttpsAndNoneToHttp) {
  ObjectServer clear;
  clear.put("a.tfrecord", content_of(kBytes));
  const HttpsServer other({.certificate = authority_.issue(), .content = content_of(kBytes)});
  std::string location = other.url("elsewhere");
  const HttpsServer server(
      {.certificate = authority_.issue(), .fault = [&](const ServedRequest&) {
         return ServedFault{.kind = ServedFault::Kind::kStatus, .status = 302, .headers = {{"Location", location}}};
       }});
  const Fetched followed = fetch_from(server, believing(ca_file_));
  ASSERT_FALSE(followed.error) << followed.error->to_string();
  EXPECT_TRUE(followed.bytes == content_of(kBytes));

  location = clear.url("a.tfrecord");
  const uint64_t before = server.requests();
  const Fetched refused = fetch_from(server, believing(ca_file_));
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->shard, server.url("a.tfrecord"));
  EXPECT_THAT(refused.error->message, AllOf(HasSubstr("status 302, which leads nowhere"), Not(HasSubstr("attempts"))));
  EXPECT_EQ(server.requests() - before, 1U);
  EXPECT_TRUE(clear.requests().empty());
}

// What is signed for https would be shown to everybody on the way.
TEST_F(Https, SignsNothingForAStoreThatRedirectsToHttp) {
  ObjectServer clear({.s3 = test::marked_service()});
  clear.put("bucket/a", "content");
  const HttpsServer store({.certificate = authority_.issue(), .fault = [&](const ServedRequest&) {
                             return ServedFault{.kind = ServedFault::Kind::kStatus,
                                                .status = 307,
                                                .headers = {{"Location", clear.url("bucket/a")}}};
                           }});
  RemoteOptions options = test::s3_options(clear);
  options.engine = believing(ca_file_).engine;
  options.s3.endpoint = store.url("");
  options.s3.redirect_hosts = {clear.url("").substr(7), "127.0.0.1"};
  EXPECT_THAT(test::error_of(options, "s3://bucket/a"), HasSubstr("status 307"));
  EXPECT_EQ(store.requests(), 1U);
  EXPECT_TRUE(clear.requests().empty());
}

TEST_F(Https, ReadsObjectsOfAStoreByHttps) {
  const HttpsServer store({.certificate = authority_.issue(), .content = content_of(kBytes)});
  RemoteOptions options = believing(ca_file_);
  options.s3 = {.endpoint = store.url(""), .credentials = test::marked_credentials()};
  options.listed = std::make_shared<ListedObjects>();
  options.environment = [](std::string_view) { return std::nullopt; };
  RemoteStorage storage(options);
  const Fetched fetched = fetch(storage, "s3://bucket/a");
  ASSERT_FALSE(fetched.error) << fetched.error->to_string();
  EXPECT_TRUE(fetched.bytes == content_of(kBytes));
}

}  // namespace
}  // namespace millrace::https_test
