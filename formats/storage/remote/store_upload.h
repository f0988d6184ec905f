#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/output_options.h"

namespace millrace {

/// How one object comes into a store: as a whole, or part by part. Nobody sees it before it is whole. What fails throws
/// `kIo` naming the URL, what was said, and to whom; never a secret. All of it blocks; one thread at a time, and not
/// the engine's.
class StoreUpload {
 public:
  virtual ~StoreUpload() = default;
  /// Of each part but the last.
  [[nodiscard]] virtual size_t part_bytes() const = 0;
  /// The object is this.
  virtual void put(std::shared_ptr<const std::string> content) = 0;
  /// The next part, which is sent while others are written: waits as long as the most are in flight, the first one
  /// until the upload has begun. It throws for an earlier one, too.
  virtual void add(std::shared_ptr<const std::string> part) = 0;
  /// The last part, after at least one other: the object is there when this returns.
  virtual void finish(std::shared_ptr<const std::string> last) = 0;
  /// After a failure of `put` or `finish`: whether the store may have done it without saying so, or may do it yet.
  [[nodiscard]] virtual bool may_be_there() const = 0;
  /// After a failure, or when it is to end without an object: nothing stays in the store, as far as it answers.
  virtual void abort() noexcept = 0;
};

/// What the error of an object begins with that is not written for what was there (status 412), by the condition that
/// was asked for; empty where there was none. Throws `kInvalidArgument` for two of them.
[[nodiscard]] std::string refused_condition(const OutputOptions& options);

/// The error of an object that cannot be written.
[[nodiscard]] ErrorException upload_error(const std::string& url, std::string_view why);

/// A name that no other upload has, in hexadecimal digits. An object is marked with it, so that one whose last answer
/// was lost can be told from others of its name.
[[nodiscard]] std::string make_upload_mark();

}  // namespace millrace
