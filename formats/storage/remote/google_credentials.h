#pragma once

#include <memory>
#include <string>

#include "millrace/formats/storage/remote/environment.h"
#include "millrace/formats/storage/remote/http_engine.h"
#include "millrace/formats/storage/remote/refreshed.h"
#include "millrace/formats/storage/remote/retry.h"

namespace millrace {

/// What requests to Google Cloud Storage prove who asks with.
struct GoogleToken {
  std::string access_token = {};  ///< for `Authorization: Bearer`; empty: requests are anonymous
  /// Where it is from, for messages: `service account NAME of FILE`, `metadata server HOST`; of anonymous requests why
  /// there is none: `anonymous: GOOGLE_APPLICATION_CREDENTIALS is not set, ...`.
  std::string source = {};
  std::string quota_project = {};  ///< for `x-goog-user-project`; empty: none
};

struct GoogleCredentialOptions {
  bool anonymous = false;         ///< Asks without any. Default: false
  std::string access_token = {};  ///< One that does not end. Default: empty, none
  std::string file = {};          ///< Of credentials, in place of those that are looked for. Default: empty
  bool read_only = false;         ///< Tokens cannot write, but those of users. Default: false
  /// Whether requests go to an emulator, which wants no credentials unless this names some. Default: with an endpoint
  /// that is not Google's (`GcsOptions::endpoint`); also where STORAGE_EMULATOR_HOST or CLOUD_STORAGE_EMULATOR_ENDPOINT
  /// is set
  std::optional<bool> is_emulator = {};
  RetryOptions retries = {};                      ///< of requests to token endpoints
  Environment environment = process_environment;  ///< Default: that of the process
};

/// Access tokens for Google Cloud Storage, from the first of these that is there
/// (https://cloud.google.com/docs/authentication/application-default-credentials): what the options say; the file that
/// GOOGLE_APPLICATION_CREDENTIALS names; `application_default_credentials.json` in the folder CLOUDSDK_CONFIG or
/// `~/.config/gcloud`; the metadata server of GCE_METADATA_HOST or `metadata.google.internal`, which must answer within
/// 1 s, twice asked; none, and requests are anonymous.
///
/// A file that is there and cannot be used is an error, not a reason to look further. It is read again for each token.
/// GOOGLE_CLOUD_QUOTA_PROJECT goes before the quota project of a file. Nothing is looked at before the first `get`.
[[nodiscard]] std::shared_ptr<Refreshed<GoogleToken>> google_credentials(std::shared_ptr<HttpEngine> engine,
                                                                         GoogleCredentialOptions options = {});

}  // namespace millrace
