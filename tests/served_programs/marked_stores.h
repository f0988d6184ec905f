#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "tests/formats/storage/remote/certificate.h"
#include "tests/formats/storage/remote/google_server.h"
#include "tests/formats/storage/remote/object_server.h"
#include "tests/served_programs/searched_runs.h"
#include "tests/served_programs/tls_front.h"

namespace millrace::test {

/// Everything that came with a request, as a page of a careless proxy shows it.
template <typename Request>
std::string echo_of(const Request& request, const std::string& target) {
  std::string text = fmt::format("{} {}", request.method, target);
  for (const auto& [name, value] : request.headers) text += fmt::format("\n{}: {}", name, value);
  return text + "\n" + request.body;
}

/// A bucket of S3 that asks for marked credentials. The programs of `runs` find it by their environment, and what must
/// be nowhere is marked there.
class MarkedS3 {
 public:
  using Request = ServedRequest;
  using Fault = ServedFault;
  static constexpr const char* kKeyId = "AKIAMARKEDKEYID0";
  static constexpr const char* kSecretKey = "SeCrEtKey/of+S3";
  static constexpr const char* kSessionToken = "SeCrEtToken+of/S3==";

  MarkedS3(SearchedRuns& runs, std::function<Fault(const Request&)> fault);
  /// To the programs, in their environment.
  void give_keys();
  /// Marks the signatures of requests until now, of which there must be some.
  void mark_requests();
  [[nodiscard]] static std::string url(const std::string& key) { return "s3://bucket/" + key; }
  void put(const std::string& key, std::string content) { server_.put("bucket/" + key, std::move(content)); }
  [[nodiscard]] std::map<std::string, std::string> objects() const;  ///< by their keys

  /// An answer that repeats the request.
  [[nodiscard]] static Fault echo(int status, const Request& request);
  /// None, to a request with a body.
  [[nodiscard]] static Fault silence() { return {.kind = Fault::Kind::kStallBeforeHead}; }
  [[nodiscard]] static const std::string& target(const Request& request) { return request.path; }

 private:
  SearchedRuns& runs_;
  ObjectServer server_;
};

/// The same of Google's store. No credentials go to an emulator: the programs ask for Google's own host, of which they
/// believe that it is this.
class MarkedGoogle {
 public:
  using Request = GoogleRequest;
  using Fault = GoogleFault;
  static constexpr const char* kClient = "GOCSPX/SeCrEtKeyOfClient";
  static constexpr const char* kRefresh = "1//SeCrEtKeyRefresh";

  MarkedGoogle(SearchedRuns& runs, std::function<Fault(const Request&)> fault);
  /// Those of a service account, in a file.
  void give_keys() { write_account(key_.private_key); }
  void write_account(const std::string& private_key) const;
  void write_user(const std::string& refresh_token) const;
  [[nodiscard]] const std::string& file() const { return file_; }  ///< where they are written
  [[nodiscard]] const std::string& private_key() const { return key_.private_key; }
  /// Marks the signatures of claims until now. There must have been tokens.
  void mark_requests();
  [[nodiscard]] static std::string url(const std::string& key) { return "gs://bucket/" + key; }
  void put(const std::string& key, std::string content) { server_.put("bucket", key, std::move(content)); }
  [[nodiscard]] std::map<std::string, std::string> objects() const;

  [[nodiscard]] static Fault echo(int status, const Request& request);
  [[nodiscard]] static Fault silence() { return {.kind = Fault::Kind::kHang}; }
  [[nodiscard]] static const std::string& target(const Request& request) { return request.target; }

 private:
  static constexpr const char* kAccount = "reader@project.iam.gserviceaccount.com";

  SearchedRuns& runs_;
  const RsaKey key_ = make_rsa_key();
  const std::string file_ = runs_.home("account.json");
  const CertificateAuthority authority_;
  GoogleServer server_;
  const TlsFront front_;
};

}  // namespace millrace::test
