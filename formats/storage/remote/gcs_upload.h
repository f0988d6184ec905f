#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/formats/storage/remote/gcs_url.h"
#include "millrace/formats/storage/remote/output_options.h"
#include "millrace/formats/storage/remote/pending_calls.h"
#include "millrace/formats/storage/remote/store_request.h"
#include "millrace/formats/storage/remote/store_upload.h"

namespace millrace {

/// Makes a call to a URL of the store. `secrets`: what errors must not repeat: whoever has the URL of a session may
/// write its object.
using GcsCalls = std::function<std::shared_ptr<StoreCall>(std::string url, std::vector<std::string> secrets)>;

/// An object of Google Cloud Storage: one request, or a resumable session
/// (https://cloud.google.com/storage/docs/performing-resumable-uploads) whose chunks go one after the other. The
/// store is told the CRC32C of the object, and what it says that it has is compared. Where the answer to the last
/// request was lost, the object that is there is asked for the mark of this upload.
class GcsUpload final : public StoreUpload {
 public:
  static constexpr size_t kGranule = 256 << 10;  ///< of which chunks are multiples

  /// Throws `kInvalidArgument` for options that cannot be.
  GcsUpload(HttpCalls calls, GcsService service, ObjectUrl object, GcsCalls make_call, const OutputOptions& options);

  [[nodiscard]] size_t part_bytes() const override { return part_bytes_; }
  void put(std::shared_ptr<const std::string> content) override;
  void add(std::shared_ptr<const std::string> part) override;
  void finish(std::shared_ptr<const std::string> last) override;
  [[nodiscard]] bool may_be_there() const override { return may_be_there_; }
  void abort() noexcept override;

 private:
  void begin();
  void send(std::shared_ptr<const std::string> content, bool is_last);
  void settle(const StoreAnswer& answer);
  void check(const std::string& resource);
  bool remove(const std::string& resource);
  [[nodiscard]] std::string url() const { return object_.to_string(); }

  const HttpCalls calls_;
  const GcsService service_;
  const ObjectUrl object_;
  const GcsCalls make_call_;
  const std::string replaced_;           // as `gcs_upload_url`
  const std::string refused_condition_;  // what errors say of it
  const size_t part_bytes_;
  const std::string mark_ = make_upload_mark();
  bool may_be_there_ = false;

  std::string session_;               // its URL; empty: there is none
  std::vector<std::string> secrets_;  // of it
  uint64_t bytes_ = 0;                // of all chunks that were handed over
  uint32_t crc_ = 0;                  // of them
  // Of the call in flight too.
  const std::shared_ptr<PendingCalls> pending_ = std::make_shared<PendingCalls>();
  const std::shared_ptr<StoreAnswer> last_ = std::make_shared<StoreAnswer>();  // to the chunk that went last
};

}  // namespace millrace
