#include "millrace/formats/storage/remote/s3_credentials.h"

#include <utility>

namespace millrace {

std::shared_ptr<Refreshed<AwsCredentials>> s3_credentials(const S3Config& config, std::shared_ptr<HttpEngine> engine,
                                                          const Environment& environment) {
  const S3Options& options = config.options;
  if (options.fetch_credentials != nullptr && !options.credentials) {
    return std::make_shared<Refreshed<AwsCredentials>>(std::move(engine), options.fetch_credentials);
  }
  return aws_credentials(std::move(engine), {.given = options.credentials,
                                             .profile = options.profile,
                                             .region = config.is_aws ? options.region : "",
                                             .ask_instance = config.is_aws,
                                             .environment = environment});
}

}  // namespace millrace
