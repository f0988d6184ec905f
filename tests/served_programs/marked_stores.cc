#include "tests/served_programs/marked_stores.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_folder.h"

namespace millrace::test {
namespace {

using Json = nlohmann::json;

}  // namespace

MarkedS3::MarkedS3(SearchedRuns& runs, std::function<Fault(const Request&)> fault)
    : runs_(runs),
      server_({.fault = std::move(fault),
               .s3 = S3ServiceOptions{
                   .access_key_id = kKeyId, .secret_access_key = kSecretKey, .session_token = kSessionToken}}) {
  runs_.set("AWS_ENDPOINT_URL_S3", server_.url(""));
  for (const char* mark : {kKeyId, "SeCrEtKey", "SeCrEtToken"}) runs_.add_mark(mark);
}

void MarkedS3::give_keys() {
  runs_.set("AWS_ACCESS_KEY_ID", kKeyId);
  runs_.set("AWS_SECRET_ACCESS_KEY", kSecretKey);
  runs_.set("AWS_SESSION_TOKEN", kSessionToken);
}

void MarkedS3::mark_requests() {
  size_t signatures = 0;
  for (const ServedRequest& request : server_.requests()) {
    const auto field = request.headers.find("authorization");
    if (field == request.headers.end()) continue;
    runs_.add_mark(field->second.substr(field->second.rfind('=') + 1));
    ++signatures;
  }
  EXPECT_GT(signatures, 0U) << "nothing was signed";
}

std::map<std::string, std::string> MarkedS3::objects() const {
  const size_t begin = std::string("bucket/").size();
  std::map<std::string, std::string> objects;
  for (const std::string& name : server_.names()) objects[name.substr(begin)] = server_.content(name).value_or("");
  return objects;
}

ServedFault MarkedS3::echo(int status, const ServedRequest& request) {
  return {.kind = ServedFault::Kind::kStatus, .status = status, .text = echo_of(request, request.path)};
}

MarkedGoogle::MarkedGoogle(SearchedRuns& runs, std::function<Fault(const Request&)> fault)
    : runs_(runs),
      server_({.fault = std::move(fault),
               .account = kAccount,
               .public_key = key_.public_key,
               .client_id = "id.apps.googleusercontent.com",
               .client_secret = kClient,
               .refresh_token = kRefresh,
               .token_mark = "ya29.SeCrEtKeyAccess"}),
      front_(authority_.issue({.name = "DNS:storage.googleapis.com"}),
             static_cast<uint16_t>(std::stoi(server_.host().substr(server_.host().find(':') + 1)))) {
  write_file(runs_.home("authorities.pem"), authority_.certificate());
  runs_.set("AWS_CA_BUNDLE", runs_.home("authorities.pem"));
  runs_.set("https_proxy", front_.proxy());
  runs_.set("GCE_METADATA_HOST", server_.host());
  runs_.set("GOOGLE_APPLICATION_CREDENTIALS", file_);
  runs_.add_mark("SeCrEtKe");
  runs_.add_mark("PRIVATE KEY");
  for (size_t begin = 0; begin < key_.private_key.size();) {
    const size_t end = key_.private_key.find('\n', begin);
    const std::string line = key_.private_key.substr(begin, end - begin);
    if (line.size() >= 8 && !line.starts_with("-----")) runs_.add_mark(line);
    begin = end + 1;
  }
}

void MarkedGoogle::write_account(const std::string& private_key) const {
  write_file(file_, Json{{"type", "service_account"},
                         {"client_email", kAccount},
                         {"private_key", private_key},
                         {"private_key_id", "1f2e3d"},
                         {"token_uri", server_.token_uri()}}
                        .dump());
}

void MarkedGoogle::write_user(const std::string& refresh_token) const {
  write_file(file_, Json{{"type", "authorized_user"},
                         {"client_id", "id.apps.googleusercontent.com"},
                         {"client_secret", kClient},
                         {"refresh_token", refresh_token},
                         {"token_uri", server_.token_uri()}}
                        .dump());
}

void MarkedGoogle::mark_requests() {
  size_t tokens = 0;
  for (const GoogleRequest& request : server_.requests()) {
    if (const size_t at = request.body.find("assertion="); at != std::string::npos) {
      runs_.add_mark(request.body.substr(request.body.rfind('.') + 1));
      runs_.add_mark(request.body.substr(at + 10, 60));
    }
    tokens += request.headers.contains("authorization") ? 1 : 0;
  }
  EXPECT_GT(tokens, 0U) << "nobody showed a token";
  EXPECT_EQ(front_.asked_for(), "storage.googleapis.com:443");
}

std::map<std::string, std::string> MarkedGoogle::objects() const {
  std::map<std::string, std::string> objects;
  for (const std::string& key : server_.keys("bucket")) objects[key] = server_.content("bucket", key).value_or("");
  return objects;
}

GoogleFault MarkedGoogle::echo(int status, const GoogleRequest& request) {
  return {.kind = GoogleFault::Kind::kAnswer, .status = status, .body = echo_of(request, request.target)};
}

}  // namespace millrace::test
