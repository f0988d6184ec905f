#pragma once

#include <memory>

#include "millrace/formats/storage/remote/s3_config.h"

namespace millrace {

/// The credentials that requests are signed with: those of the options, else what `aws_credentials` finds. Without any
/// nothing is signed.
[[nodiscard]] std::shared_ptr<Refreshed<AwsCredentials>> s3_credentials(const S3Config& config,
                                                                        std::shared_ptr<HttpEngine> engine,
                                                                        const Environment& environment);

}  // namespace millrace
