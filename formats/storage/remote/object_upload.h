#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <unistd.h>

#include "millrace/formats/storage/output_file.h"
#include "millrace/formats/storage/remote/store_upload.h"

namespace millrace {

/// An object of a store that is there only when it is whole: nobody sees it before `commit`, and an earlier one of the
/// same name is there until then. What has at most the bytes of one part is one request. More is sent in parts while it
/// is written; `write` waits only as long as the most parts are in flight, and once for the store to begin such an
/// upload. Memory is taken for these parts and one more.
///
/// Destruction without `commit`, and any failure, ends the upload, as far as the store answers. A process that is
/// killed leaves parts that nobody sees: `RemoteStorage::unfinished_uploads`. Not on the engine's thread; in the child
/// of a fork every step is an error, and the upload stays that of its parent.
///
///     const std::unique_ptr<OutputFile> file = RemoteStorage::of_process()->create("s3://bucket/model.safetensors");
///     file->write(bytes);
///     file->commit();
class ObjectUpload final : public OutputFile {
 public:
  /// `changed` is called when another object may be there than before. Must not throw.
  ObjectUpload(std::string url, std::unique_ptr<StoreUpload> upload, std::function<void()> changed);
  ~ObjectUpload() override;

  void write(std::string_view bytes) override;
  void commit() override;
  [[nodiscard]] bool may_be_there() const override { return may_be_there_; }

 private:
  void require_open() const;
  void make_room(size_t bytes);
  void send();
  template <typename Step>
  void attempt(Step step);

  const pid_t process_ = ::getpid();  // in the child of a fork nobody would answer
  const std::function<void()> changed_;
  std::unique_ptr<StoreUpload> upload_;  // null: it has come to an end
  const size_t part_bytes_;
  std::string part_;        // that is being written
  bool has_parts_ = false;  // beside it
  bool may_be_there_ = false;
};

}  // namespace millrace
