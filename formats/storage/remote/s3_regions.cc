#include "millrace/formats/storage/remote/s3_regions.h"

#include <utility>

#include <fmt/format.h>

namespace millrace {
namespace {

using Region = Refreshed<std::string>;

// Asks a bucket where it is, which it says to everybody, with whatever status
// (https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadBucket.html).
void find_region(const HttpCalls& calls, const std::string& bucket, const std::string& url,
                 std::function<void(Region::Fetched)> found) {
  const auto field = [](const HttpResponse& response) { return response.head.headers.find("x-amz-bucket-region"); };
  const auto outcome = [field](const HttpResponse& response) {
    if (response.failure == HttpFailure::kRefused) return AttemptOutcome::kAnswered;
    if (response.failure != HttpFailure::kNone) return AttemptOutcome::kTransport;
    return field(response) == nullptr && is_busy_status(response.head.status) ? AttemptOutcome::kBusy
                                                                              : AttemptOutcome::kAnswered;
  };
  const auto done = [=, found = std::move(found)](const HttpResponse& response, int attempts) {
    const std::string* const region = field(response);
    if (region != nullptr && is_region_name(*region)) return found({.value = std::make_shared<std::string>(*region)});
    // Whoever has no such bucket says so himself, with a code, when he is asked for an object.
    if (response.head.status == 404) return found({.value = std::make_shared<std::string>("us-east-1")});
    const std::string reason = response.failure == HttpFailure::kNone
                                   ? fmt::format("status {} without x-amz-bucket-region", response.head.status)
                                   : response.reason;
    found({.error = fmt::format("the region of bucket '{}' cannot be found: {} (after {} attempts; asked of {}); "
                                "AWS_REGION can name it",
                                bucket, reason, attempts, url)});
  };
  RetriedCall::start(calls, {.request =
                                 [url](const StoreCall::Ready& ready) {
                                   ready({.request = {.method = HttpMethod::kHead, .url = url}});
                                 },
                             .outcome = outcome,
                             .done = done});
}

}  // namespace

void S3Regions::get(const std::string& bucket, std::function<void(std::string region, std::string error)> got) {
  std::string known = config_.options.region;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = corrected_.find(bucket); found != corrected_.end()) known = found->second;
  }
  if (!known.empty()) return got(std::move(known), "");
  region_of(bucket)->get([got = std::move(got)](const Region::Fetched& fetched) {
    got(fetched.value == nullptr ? "" : *fetched.value, fetched.error);
  });
}

void S3Regions::correct(const std::string& bucket, std::string region) {
  const std::lock_guard lock(mutex_);
  corrected_[bucket] = std::move(region);
}

std::shared_ptr<Region> S3Regions::region_of(const std::string& bucket) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Region>& region = asked_[bucket];
  if (region == nullptr) {
    const std::string url = s3_bucket_url(config_, bucket, "") + "/";
    region = std::make_shared<Region>(calls_.engine,
                                      [calls = calls_, bucket, url](std::function<void(Region::Fetched)> found) {
                                        find_region(calls, bucket, url, std::move(found));
                                      });
  }
  return region;
}

}  // namespace millrace
