#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/storage/remote/gcs_url.h"
#include "millrace/formats/storage/remote/google_credentials.h"
#include "millrace/formats/storage/remote/object_read.h"
#include "millrace/formats/storage/remote/object_store.h"

namespace millrace {

/// How objects at `gs://BUCKET/KEY` are reached.
struct GcsOptions {
  /// Default: STORAGE_EMULATOR_HOST, CLOUD_STORAGE_EMULATOR_ENDPOINT, else https://storage.googleapis.com. With one
  /// that is not Google's, no token is looked for
  std::string endpoint = {};
  /// The project that pays for buckets whose requesters pay. Default: empty, none
  std::string user_project = {};
  GoogleCredentialOptions credentials = {};
};

/// Objects of Google Cloud Storage by its JSON API, with the access token that holds when a request is sent; one that
/// the server refuses is asked for anew, once for each request. Objects come as they are stored, also those that are
/// marked as gzip.
class GcsStore final : public BucketStore {
 public:
  /// `calls`: whose engine asks for credentials. Throws `kInvalidArgument` for an endpoint that is no URL.
  GcsStore(GcsOptions options, const HttpCalls& calls, const Environment& environment = process_environment);
  [[nodiscard]] std::shared_ptr<StoreCall> read(const std::string& url,
                                                const std::optional<ObjectVersion>& pin) override;
  [[nodiscard]] std::shared_ptr<StoreCall> list(const ListRequest& request) override;
  [[nodiscard]] ListedPage parse_page(std::string_view body) const override;
  [[nodiscard]] std::unique_ptr<StoreUpload> upload(const HttpCalls& calls, const std::string& url,
                                                    const OutputOptions& options) override;
  [[nodiscard]] std::shared_ptr<StoreCall> call_of_object(const std::string& url) override;
  [[nodiscard]] std::string scheme() const override { return "gs"; }
  [[nodiscard]] std::string name() const override;

 private:
  class Call;
  const GcsService service_;
  const std::shared_ptr<Refreshed<GoogleToken>> tokens_;
};

/// What an answer that is not what was asked for means (https://cloud.google.com/storage/docs/retry-strategy). `pin`:
/// of the request. `secrets` are not repeated. Never `kAgain`.
[[nodiscard]] StoreOutcome judge_gcs(const HttpResponse& response, const std::optional<ObjectVersion>& pin,
                                     const std::vector<std::string>& secrets = {});

}  // namespace millrace
