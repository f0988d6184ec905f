#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "millrace/formats/storage/remote/object_read.h"
#include "millrace/formats/storage/remote/refreshed.h"
#include "millrace/formats/storage/remote/s3_config.h"

namespace millrace {

/// The region of each bucket: the one that is given, or what the store says of it. Any thread.
class S3Regions {
 public:
  S3Regions(const S3Config& config, HttpCalls calls) : config_(config), calls_(std::move(calls)) {}

  /// `got` is called once, at once or when the answer is there: with the region, or without one and why.
  void get(const std::string& bucket, std::function<void(std::string region, std::string error)> got);
  /// A store has said that the bucket is in this one.
  void correct(const std::string& bucket, std::string region);

 private:
  std::shared_ptr<Refreshed<std::string>> region_of(const std::string& bucket);

  const S3Config& config_;
  const HttpCalls calls_;
  std::mutex mutex_;
  std::map<std::string, std::string> corrected_;  // by bucket
  std::map<std::string, std::shared_ptr<Refreshed<std::string>>> asked_;
};

}  // namespace millrace
