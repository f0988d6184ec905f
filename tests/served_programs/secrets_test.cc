// Whole programs with marked credentials, against servers that fail and repeat what they were sent: no mark is in
// anything that the programs leave.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/tfrecord/writer.h"
#include "tests/examples/mlm/small_mlm_run.h"
#include "tests/formats/storage/remote/google_server.h"
#include "tests/formats/storage/remote/object_server.h"
#include "tests/formats/storage/remote/s3_service.h"
#include "tests/served_programs/marked_stores.h"
#include "tests/served_programs/searched_runs.h"
#include "tests/support/child_process.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::secrets_test {
namespace {

using test::ChildResult;
using test::GoogleFault;
using test::GoogleRequest;
using test::MarkedGoogle;
using test::MarkedS3;
using test::ObjectServer;
using test::read_file;
using test::ServedFault;
using test::ServedRequest;
using testing::AllOf;
using testing::HasSubstr;
using Json = nlohmann::json;

constexpr int kShards = 3;

std::string shard(int number) {
  const test::TemporaryFolder folder;
  RecordWriter writer(folder.path("a"), {.compression = Compression::kNone});
  for (int r = 0; r < 200; ++r) writer.write(fmt::format("record {} of {}: {:>500}", r, number, r));
  writer.close();
  return read_file(folder.path("a"));
}

std::string damaged(std::string content) {
  content[content.size() / 2] ^= 1;
  return content;
}

class Secrets : public testing::Test {
 protected:
  std::vector<std::string> bench(const std::string& shards, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {test::kDatasetBench, "read", "--shards", shards, "--batch", "16"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  // Each output that the programs have; all of them end well.
  void run_everything(const std::string& pattern) {
    const auto good = [&](const std::vector<std::string>& arguments) {
      const ChildResult result = runs_.run(arguments);
      EXPECT_EQ(result.exit_code, 0) << fmt::format("{}: ", fmt::join(arguments, " ")) << result.err;
    };
    const std::string state = runs_.out("state");
    std::vector<std::string> outputs = {
        "--batches",          "100",        "--json",           "--state", state,
        "--state-every",      "3",          "--damage",         "skip",    "--skipped-log",
        runs_.out("skipped"), "--hash-log", runs_.out("hashes")};
    std::vector<std::string> pictures = {"--html", runs_.out("page.html"), "--trace", runs_.out("trace.json")};
    std::vector<std::string> first = outputs;
    first.insert(first.end(), pictures.begin(), pictures.end());
    good(bench(pattern, first));
    outputs[1] = "200";
    outputs.insert(outputs.end(), {"--resume", state});
    good(bench(pattern, outputs));
    good(bench(pattern, {"--batches", "10"}));
    good(bench(pattern, {"--print", "3"}));
    good(bench(pattern, {"--explain"}));
    good(bench(pattern, {"--explain-dot"}));
    good(bench(pattern, {"--check"}));
    good(bench(pattern, {"--save-pipeline", runs_.out("pipeline.json")}));
    good(bench(pattern, {"--save", runs_.out("saved"), "--batches", "10"}));
    good({test::kDatasetVerify, pattern, "--json"});
    good({test::kDatasetVerify, pattern});
    good({test::kDatasetIndex, pattern});
    good({test::kDatasetIndex, pattern, "--force", "--json"});
    for (const char* file : {"state", "hashes", "page.html", "trace.json", "pipeline.json"}) {
      EXPECT_FALSE(read_file(runs_.out(file)).empty()) << file;
    }
  }

  // Of what cannot be read: one error that names it.
  void expect_error(const std::string& shards, const std::string& named, const testing::Matcher<std::string>& message,
                    const std::vector<std::string>& more = {"--batches", "1"}) {
    const ChildResult result = runs_.run(bench(shards, more));
    EXPECT_NE(result.exit_code, 0) << shards;
    EXPECT_THAT(result.err, AllOf(HasSubstr(named), message));
  }

  void expect_nothing_found() { EXPECT_EQ(runs_.found(), ""); }

  test::SearchedRuns runs_;
};

// `Store`: MarkedS3 or MarkedGoogle.
template <typename Store>
class StoreSecrets : public Secrets {
 protected:
  void serve(std::function<typename Store::Fault(const typename Store::Request&)> fault) {
    store_ = std::make_unique<Store>(runs_, std::move(fault));
    for (int s = 0; s < kShards; ++s) store_->put(fmt::format("part-{}.tfrecord", s), shard(s));
  }

  std::unique_ptr<Store> store_;
};

class S3Secrets : public StoreSecrets<MarkedS3> {
 protected:
  static constexpr const char* kKeyId = MarkedS3::kKeyId;
  static constexpr const char* kSecretKey = MarkedS3::kSecretKey;
  static constexpr const char* kSessionToken = MarkedS3::kSessionToken;
};

// A server that is busy, breaks off and repeats what it was sent.
TEST_F(S3Secrets, AreInNothingThatProgramsLeaveOfAStoreThatFailsNowAndThen) {
  serve([](const ServedRequest& request) -> ServedFault {
    if (request.number % 5 == 1) return MarkedS3::echo(503, request);
    return {.kind = request.number % 7 == 2 ? ServedFault::Kind::kResetInBody : ServedFault::Kind::kNone};
  });
  store_->give_keys();
  run_everything("s3://bucket/part-*");
  store_->put("damaged.tfrecord", damaged(shard(9)));
  EXPECT_NE(runs_.run({test::kDatasetVerify, "s3://bucket/damaged.tfrecord"}).exit_code, 0);
  runs_.run(bench("s3://bucket/damaged.tfrecord",
                  {"--batches", "20", "--damage", "skip", "--skipped-log", runs_.out("skipped of a damaged one")}));
  EXPECT_FALSE(read_file(runs_.out("skipped of a damaged one")).empty());
  store_->mark_requests();
  expect_nothing_found();
}

TEST_F(S3Secrets, AreInNoErrorWhateverAStoreRepeats) {
  std::function<ServedFault(const ServedRequest&)> fault;
  bool fails_listing = false;
  serve([&](const ServedRequest& request) {
    const bool is_listing = request.path.find("list-type") != std::string::npos;
    return is_listing == fails_listing ? fault(request) : ServedFault();
  });
  store_->give_keys();
  using Kind = ServedFault::Kind;
  const std::vector<std::function<ServedFault(const ServedRequest&)>> faults = {
      // As S3 refuses a signature.
      [](const ServedRequest& request) {
        const std::string& field = request.headers.at("authorization");
        return test::s3_fault(403, "SignatureDoesNotMatch",
                              fmt::format("<AWSAccessKeyId>{}</AWSAccessKeyId><StringToSign>{}</StringToSign>"
                                          "<SignatureProvided>{}</SignatureProvided>",
                                          kKeyId, echo_of(request, request.path), field.substr(field.rfind('=') + 1)));
      },
      [](const ServedRequest& request) {
        return ServedFault{.kind = Kind::kStatus,
                           .status = 403,
                           .text = fmt::format("<Error><Code>InvalidAccessKeyId</Code><Message>{}</Message></Error>",
                                               request.headers.at("authorization"))};
      },
      // The field that repeats it is not the first one.
      [](const ServedRequest& request) {
        return ServedFault{.kind = Kind::kStatus, .status = 400, .text = echo_of(request, "")};
      },
      [](const ServedRequest& request) {
        return ServedFault{
            .kind = Kind::kStatus, .status = 401, .text = "who is " + request.headers.at("x-amz-security-token")};
      },
      [](const ServedRequest& request) {
        return ServedFault{
            .kind = Kind::kStatus,
            .status = 307,
            .headers = {{"Location", fmt::format("http://elsewhere.example/a?{}={}", "X-Amz-Security-Token",
                                                 request.headers.at("x-amz-security-token"))}}};
      },
      [](const ServedRequest&) { return test::s3_fault(403, "AccessDenied"); }};
  test::write_file(runs_.home("list"), "s3://bucket/part-0.tfrecord");
  for (const auto& each : faults) {
    fault = each;
    for (const bool listing : {false, true}) {
      fails_listing = listing;
      expect_error(listing ? "s3://bucket/part-*" : "@" + runs_.home("list"),
                   listing ? "s3://bucket/part-*" : "s3://bucket/part-0.tfrecord", HasSubstr("status "));
    }
  }
  store_->mark_requests();
  expect_nothing_found();
}

TEST_F(S3Secrets, AreInNoErrorOfAWrongKey) {
  serve(nullptr);
  store_->give_keys();
  runs_.set("AWS_SECRET_ACCESS_KEY", "SeCrEtKeyOfSomebodyElse");
  expect_error("s3://bucket/part-*", "s3://bucket/part-*", HasSubstr("status 403"));
  store_->mark_requests();
  expect_nothing_found();
}

// Nothing comes: the watchdog says what is waited for.
TEST_F(S3Secrets, AreInNothingThatTheWatchdogSays) {
  serve([](const ServedRequest& request) {
    const bool is_listing = request.path.find("list-type") != std::string::npos;
    return ServedFault{.kind = is_listing ? ServedFault::Kind::kNone : ServedFault::Kind::kStallBeforeHead};
  });
  store_->give_keys();
  const ChildResult stalled = runs_.run(bench("s3://bucket/part-*", {"--batches", "5", "--watchdog", "3"}));
  EXPECT_EQ(stalled.exit_code, 75) << stalled.err;
  EXPECT_THAT(stalled.err, HasSubstr("s3://bucket/part-"));
  store_->mark_requests();
  expect_nothing_found();
}

TEST_F(S3Secrets, AreInNothingThatIsSaidOfFilesAndProgramsWithCredentials) {
  serve(nullptr);
  const std::string credentials = runs_.home("credentials");
  runs_.set("AWS_SHARED_CREDENTIALS_FILE", credentials);
  const auto keys = [](const char* more) {
    return fmt::format("[default]\naws_access_key_id = {}\naws_secret_access_key = {}\naws_session_token = {}\n{}",
                       kKeyId, kSecretKey, kSessionToken, more);
  };
  test::write_file(credentials, keys(""));
  EXPECT_EQ(runs_.run(bench("s3://bucket/part-*", {"--batches", "5"})).exit_code, 0);
  store_->mark_requests();
  // Files that are no such: half of a pair, a line that is none.
  for (const std::string& text :
       {fmt::format("[default]\naws_secret_access_key = {}\n", kSecretKey),
        fmt::format("[default]\naws_access_key_id = {}\n", kKeyId), fmt::format("[default]\n{}\n", kSecretKey),
        fmt::format("{}\n", kSessionToken), fmt::format("[{}\n", kSecretKey)}) {
    test::write_file(credentials, text);
    expect_error("s3://bucket/part-*", "dataset_bench: ", testing::_);
  }
  test::write_file(credentials, keys(kSessionToken));
  runs_.run(bench("s3://bucket/part-*", {"--batches", "1"}));
  test::write_file(credentials, "");
  const std::string script = runs_.home("process.sh");
  const std::string config = runs_.home("config");
  runs_.set("AWS_CONFIG_FILE", config);
  test::write_file(config, fmt::format("[default]\ncredential_process = /bin/sh {} {}\n", script, kSecretKey));
  const std::string answer = fmt::format(
      "cat <<'TEXT'\n{}\nTEXT\n",
      Json{{"Version", 1}, {"AccessKeyId", kKeyId}, {"SecretAccessKey", kSecretKey}, {"SessionToken", kSessionToken}}
          .dump());
  test::write_file(script, fmt::format("echo {} >&2\n", kSessionToken) + answer);
  EXPECT_EQ(runs_.run(bench("s3://bucket/part-*", {"--batches", "5"})).exit_code, 0);
  for (const std::string& text :
       {answer + "exit 3\n", fmt::format("echo {} >&2\nexit 3\n", kSecretKey), fmt::format("echo {}\n", kSessionToken),
        fmt::format("echo '{{\"Version\": 1, \"AccessKeyId\": \"{}\"}}'\n", kKeyId)}) {
    test::write_file(script, text);
    expect_error("s3://bucket/part-*", "s3://bucket/part-*", HasSubstr("credential"));
  }
  expect_nothing_found();
}

// A training: what it prints, its checkpoints, its model, the events for TensorBoard, the trace.
TEST_F(S3Secrets, AreInNothingThatATrainingLeaves) {
  std::atomic<bool> is_refused = false;
  serve([&](const ServedRequest& request) -> ServedFault {
    const bool is_echo = is_refused || request.number % 5 == 1;
    if (!is_echo) return {};
    return {.kind = ServedFault::Kind::kStatus, .status = is_refused ? 403 : 503, .text = echo_of(request, "")};
  });
  const ChildResult prepared = runs_.run(test::small_mlm_preparation(runs_.home(), 300));
  ASSERT_EQ(prepared.exit_code, 0) << prepared.err;
  for (const auto& [path, content] : test::files_below(runs_.home("shards"))) {
    store_->put("shards/" + path, content);
  }
  store_->give_keys();
  const std::vector<std::string> training =
      test::small_mlm_training(runs_.out("run"), "s3://bucket",
                               {"--tokenizer", runs_.home("tokenizer.json"), "--steps", "10", "--checkpoint-every", "4",
                                "--trace", runs_.out("trace.json")});
  const ChildResult trained = runs_.run(training);
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_FALSE(read_file(runs_.out("trace.json")).empty());
  EXPECT_FALSE(test::files_below(runs_.out("run/checkpoints")).empty());
  EXPECT_FALSE(test::files_below(runs_.out("run/model")).empty());
  is_refused = true;
  const ChildResult refused = runs_.run(test::with_options(training, {"--overwrite"}));
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("s3://bucket/shards"), HasSubstr("status 403")));
  store_->mark_requests();
  expect_nothing_found();
}

class GoogleSecrets : public StoreSecrets<MarkedGoogle> {
 protected:
  static constexpr const char* kClient = MarkedGoogle::kClient;
  static constexpr const char* kRefresh = MarkedGoogle::kRefresh;
};

TEST_F(GoogleSecrets, AreInNothingThatProgramsLeaveOfAStoreThatFailsNowAndThen) {
  serve([](const GoogleRequest& request) -> GoogleFault {
    if (request.number % 5 == 1) return MarkedGoogle::echo(503, request);
    return {.kind = request.number % 7 == 2 ? GoogleFault::Kind::kReset : GoogleFault::Kind::kNone};
  });
  store_->write_account(store_->private_key());
  run_everything("gs://bucket/part-*");
  store_->write_user(kRefresh);
  EXPECT_EQ(runs_.run(bench("gs://bucket/part-*", {"--batches", "5"})).exit_code, 0);
  store_->mark_requests();
  expect_nothing_found();
}

TEST_F(GoogleSecrets, AreInNoErrorWhateverAStoreRepeats) {
  std::function<GoogleFault(const GoogleRequest&)> fault;
  std::string failing;
  serve([&](const GoogleRequest& request) {
    return request.target.find(failing) != std::string::npos ? fault(request) : GoogleFault();
  });
  const auto refusals = {
      // As it stands, and as the API's errors are.
      std::function<GoogleFault(const GoogleRequest&)>([](const GoogleRequest& request) {
        return GoogleFault{.kind = GoogleFault::Kind::kAnswer, .status = 403, .body = echo_of(request, "")};
      }),
      std::function<GoogleFault(const GoogleRequest&)>([](const GoogleRequest& request) {
        const Json error{{"code", 403}, {"message", echo_of(request, "")}};
        return GoogleFault{.kind = GoogleFault::Kind::kAnswer, .status = 403, .body = Json{{"error", error}}.dump()};
      }),
      std::function<GoogleFault(const GoogleRequest&)>([](const GoogleRequest& request) {
        const Json error{{"error", "invalid_grant"}, {"error_description", echo_of(request, "")}};
        return GoogleFault{.kind = GoogleFault::Kind::kAnswer, .status = 400, .body = error.dump()};
      })};
  test::write_file(runs_.home("list"), "gs://bucket/part-0.tfrecord");
  for (const bool is_user : {false, true}) {
    is_user ? store_->write_user(kRefresh) : store_->write_account(store_->private_key());
    for (const auto& each : refusals) {
      fault = each;
      for (const char* where : {"/token", "alt=media", "prefix="}) {
        failing = where;
        const bool by_list = failing == "alt=media";
        expect_error(by_list ? "@" + runs_.home("list") : "gs://bucket/part-*",
                     by_list ? "gs://bucket/part-0.tfrecord" : "gs://bucket/part-*", HasSubstr("status 40"));
      }
    }
  }
  store_->mark_requests();
  expect_nothing_found();
}

TEST_F(GoogleSecrets, AreInNothingThatIsSaidOfFilesThatCannotBeUsed) {
  serve(nullptr);
  store_->write_user(kRefresh);
  EXPECT_EQ(runs_.run(bench("gs://bucket/part-*", {"--batches", "5"})).exit_code, 0);
  store_->mark_requests();
  store_->write_user("1//SeCrEtKeyOfSomebodyElse");
  expect_error("gs://bucket/part-*", "gs://bucket/part-*", HasSubstr("invalid_grant"));
  std::string half = store_->private_key().substr(0, store_->private_key().size() / 2);
  store_->write_account(half);
  expect_error("gs://bucket/part-*", "gs://bucket/part-*", HasSubstr("account.json"));
  store_->write_account("SeCrEtKeyThatIsNone");
  expect_error("gs://bucket/part-*", "gs://bucket/part-*", HasSubstr("account.json"));
  for (const std::string& text :
       {read_file(store_->file()).substr(0, read_file(store_->file()).size() / 2), store_->private_key(),
        fmt::format("{{\"type\": \"external_account\", \"client_secret\": \"{}\"}}", kClient),
        fmt::format("{{\"type\": 1, \"a\": \"{}\"", kRefresh)}) {
    test::write_file(store_->file(), text);
    expect_error("gs://bucket/part-*", "gs://bucket/part-*", HasSubstr("account.json"));
  }
  expect_nothing_found();
}

// Where a redirect leads has a signature in its query: it is not what the user named.
TEST_F(Secrets, OfARedirectAreInNothingThatProgramsLeave) {
  std::atomic<bool> has_expired = false;
  const std::string query = "?X-Amz-Credential=AKIAMARKEDKEYID0%2F20261128&X-Amz-Signature=SeCrEtKeyOfARedirect";
  ObjectServer target({.fault = [&](const ServedRequest& request) -> ServedFault {
    if (request.path.find("SeCrEtKey") == std::string::npos) return {};
    if (!has_expired) return {};
    return MarkedS3::echo(403, request);
  }});
  for (int s = 0; s < kShards; ++s) {
    target.put(fmt::format("part-{}.tfrecord", s), shard(s));
    target.put(fmt::format("part-{}.tfrecord{}", s, query), shard(s));
  }
  ObjectServer server({.fault = [&](const ServedRequest& request) {
    return ServedFault{.kind = ServedFault::Kind::kStatus,
                       .status = 302,
                       .headers = {{"Location", target.url(request.path.substr(1) + query)}}};
  }});
  runs_.add_mark("SeCrEtKe");
  runs_.add_mark(MarkedS3::kKeyId);
  const std::string pattern = server.url("part-{0..2}.tfrecord");
  const ChildResult good =
      runs_.run(bench(pattern, {"--batches", "50", "--json", "--state", runs_.out("state"), "--state-every", "3",
                                "--trace", runs_.out("trace"), "--html", runs_.out("page.html")}));
  EXPECT_EQ(good.exit_code, 0) << good.err;
  has_expired = true;
  expect_error(pattern, server.url("part-"), HasSubstr("status 403"));
  EXPECT_NE(runs_.run({test::kDatasetVerify, pattern}).exit_code, 0);
  EXPECT_FALSE(target.requests().empty());
  expect_nothing_found();
}

}  // namespace
}  // namespace millrace::secrets_test
