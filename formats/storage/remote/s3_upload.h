#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/formats/storage/remote/output_options.h"
#include "millrace/formats/storage/remote/pending_calls.h"
#include "millrace/formats/storage/remote/store_request.h"
#include "millrace/formats/storage/remote/store_upload.h"

namespace millrace {

/// Makes a call about an object of S3. `query`: percent-encoded, without `?`; empty: none. `secrets`: what errors must
/// not repeat.
using S3Calls = std::function<std::shared_ptr<StoreCall>(const std::string& query, std::vector<std::string> secrets)>;

/// Which conditions of what is written a store knows, as far as its answers have said. Any thread.
struct S3Conditions {
  std::atomic<bool> if_none_match = true;
  std::atomic<bool> if_match = true;
};

/// An object of S3: one PUT, or an upload in parts
/// (https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html). Parts are of one size, which some stores
/// demand. Where the answer to the last request was lost, the object that is there is asked for the mark of this
/// upload. A store that does not implement the condition is asked without it.
class S3Upload final : public StoreUpload {
 public:
  static constexpr size_t kMostParts = 10'000;

  /// `hashes`: whether the content is signed: where nothing else guards it on its way, without TLS. Throws
  /// `kInvalidArgument` for options that cannot be.
  S3Upload(HttpCalls calls, std::string url, S3Calls make_call, bool hashes, std::shared_ptr<S3Conditions> conditions,
           const OutputOptions& options, size_t most_parts = kMostParts);
  ~S3Upload() override;

  [[nodiscard]] size_t part_bytes() const override { return part_bytes_; }
  void put(std::shared_ptr<const std::string> content) override;
  void add(std::shared_ptr<const std::string> part) override;
  void finish(std::shared_ptr<const std::string> last) override;
  [[nodiscard]] bool may_be_there() const override { return may_be_there_; }
  void abort() noexcept override;

 private:
  enum class There { kThis, kNot, kUnknown };
  class Tags;

  void begin();
  [[nodiscard]] HttpRequest request_to_complete() const;
  [[nodiscard]] StoreAnswer ask_on_condition(const std::function<std::shared_ptr<StoreCall>()>& make_call,
                                             const HttpRequest& request,
                                             const std::function<bool(const HttpResponse&)>& accepts) const;
  void require_condition() const;
  [[nodiscard]] StoreAnswer ask_for_head() const;
  void settle(const StoreAnswer& answer);
  [[nodiscard]] There look(std::string& why) const;
  [[nodiscard]] HttpRequest request_with(const std::shared_ptr<const std::string>& content) const;
  [[nodiscard]] std::shared_ptr<StoreCall> call_of_upload(const std::string& query) const;

  const HttpCalls calls_;
  const std::string url_;
  const S3Calls make_call_;
  const bool hashes_;
  const std::shared_ptr<S3Conditions> conditions_;
  const bool if_absent_;
  const std::string if_version_;         // the tag; empty: none
  const std::string refused_condition_;  // what errors say of either
  const size_t part_bytes_;
  const int most_in_flight_;
  const size_t most_parts_;
  const std::string mark_ = make_upload_mark();
  bool may_be_there_ = false;

  std::shared_ptr<const std::string> content_;  // of an object that is one PUT
  std::string id_;                              // of the upload in parts; empty: there is none
  size_t num_parts_ = 0;
  uint64_t bytes_ = 0;  // of all that was handed over
  // Of the calls in flight too.
  const std::shared_ptr<PendingCalls> pending_ = std::make_shared<PendingCalls>();
  const std::shared_ptr<Tags> tags_;
};

}  // namespace millrace
