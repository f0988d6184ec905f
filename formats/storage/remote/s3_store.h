#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/formats/storage/remote/object_read.h"
#include "millrace/formats/storage/remote/object_store.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/s3_config.h"
#include "millrace/formats/storage/remote/unfinished_upload.h"

namespace millrace {

/// Objects of S3, and of stores that speak its language: requests signed for the region of each bucket, with the
/// credentials that hold when they are sent. A wrong region, credentials that have ended and a clock that goes wrong
/// are corrected, once for each request.
class S3Store final : public BucketStore {
 public:
  /// `calls`: for what requests need, a region or credentials. Throws `kInvalidArgument` as `resolve_s3`.
  S3Store(const S3Options& options, const HttpCalls& calls, const Environment& environment = process_environment);
  [[nodiscard]] std::shared_ptr<StoreCall> read(const std::string& url,
                                                const std::optional<ObjectVersion>& pin) override;
  [[nodiscard]] std::shared_ptr<StoreCall> list(const ListRequest& request) override;
  [[nodiscard]] ListedPage parse_page(std::string_view body) const override;
  [[nodiscard]] std::unique_ptr<StoreUpload> upload(const HttpCalls& calls, const std::string& url,
                                                    const OutputOptions& options) override;
  [[nodiscard]] std::shared_ptr<StoreCall> call_of_object(const std::string& url) override { return read(url, {}); }
  /// Uploads of objects whose keys begin with `prefix`, as `list`; its pages are read by `parse_s3_uploads`.
  [[nodiscard]] std::shared_ptr<StoreCall> list_uploads(const ObjectUrl& prefix, const std::string& page);
  /// A call about one of them.
  [[nodiscard]] std::shared_ptr<StoreCall> call_of_upload(const UnfinishedUpload& upload);
  /// The time of day by the store's clock, as far as an answer has said that ours goes wrong.
  [[nodiscard]] std::chrono::system_clock::time_point now() const;
  [[nodiscard]] std::string scheme() const override { return "s3"; }
  [[nodiscard]] bool keeps_if_absent() const override;
  [[nodiscard]] bool keeps_if_version() const override;
  [[nodiscard]] std::string name() const override;

 private:
  class Shared;
  class Call;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace millrace
