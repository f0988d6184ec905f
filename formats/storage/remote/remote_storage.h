#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/storage/output_file.h"
#include "millrace/formats/storage/remote/gcs_store.h"
#include "millrace/formats/storage/remote/listed_objects.h"
#include "millrace/formats/storage/remote/object_glob.h"
#include "millrace/formats/storage/remote/object_now.h"
#include "millrace/formats/storage/remote/object_read.h"
#include "millrace/formats/storage/remote/output_options.h"
#include "millrace/formats/storage/remote/s3_config.h"
#include "millrace/formats/storage/remote/unfinished_upload.h"
#include "millrace/formats/storage/storage.h"

namespace millrace {

struct RemoteOptions {
  S3Options s3 = {};
  GcsOptions gcs = {};
  RetryOptions retries = {};
  /// Of reads of a whole object: `File::advice`. Default: 8 MiB, 16 in flight, 64 of all
  ReadAdvice advice = {.bytes = 8 << 20, .in_flight = 16, .in_all = 64};
  /// Reads that are slow are asked for a second time, one in twenty at most (`HedgePolicy`). Default: true
  bool hedges_reads = true;
  /// Default: null, that of the process
  std::shared_ptr<HttpEngine> engine = nullptr;
  /// What listings have named. Default: null, what those of the process have
  std::shared_ptr<ListedObjects> listed = nullptr;
  /// Default: that of the process
  Environment environment = process_environment;
};

/// Objects at `s3://BUCKET/KEY`, `gs://BUCKET/KEY`, and at `http://` and `https://` URLs of servers that send ranges of
/// them (RFC 9110, 14). The version of an object, its generation, entity tag or date with its size, is that of the
/// listing or first answer that names it: another one is an error that names both. Redirects of HTTP are followed, five
/// at most; connections that fail and servers that are busy are asked again, up to `RetryOptions::give_up_after`
/// without a byte.
///
///     RemoteStorage storage({.s3 = {.region = "eu-west-1"}});
///     for (const std::string& url : storage.glob("s3://bucket/train/part-*.tfrecord")) storage.open(url, sink);
///
/// Opening an object that was listed asks nothing; any other takes one request, which brings the first 64 KiB too.
/// Nothing starts before it. Wrong options of S3 are errors of what is opened or listed.
class RemoteStorage final : public Storage {
 public:
  explicit RemoteStorage(RemoteOptions options = {});
  ~RemoteStorage() override;
  /// One for the process and its environment, with default options: what was listed is mostly read next, with the
  /// connections, regions and credentials that are there. Kept as long as somebody has it.
  static std::shared_ptr<RemoteStorage> of_process();
  /// `glob` of that one, which is kept for a minute more.
  [[nodiscard]] static std::vector<std::string> glob_of_process(const std::string& pattern,
                                                                const GlobProgress& progress);
  /// `locate_in_folders` of that one; what it gives is kept for a minute, too.
  [[nodiscard]] static std::vector<std::string> located_of_process(std::vector<std::string> paths);
  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override;
  /// Of buckets: `glob_bucket`, and where nothing is found that way `glob_in_folders`. HTTP cannot list: a pattern is
  /// the one URL it is, `kInvalidArgument` where it has `*` or `[`; numbers in braces, `part-{00000..00127}.tfrecord`,
  /// stand for all of them.
  [[nodiscard]] std::vector<std::string> glob(const std::string& pattern) override { return glob(pattern, nullptr); }
  [[nodiscard]] std::vector<std::string> glob(const std::string& pattern, const GlobProgress& progress);

  /// Begins to write an object in a bucket (`ObjectUpload`); nothing is asked yet. Throws `kInvalidArgument` for a URL
  /// that names no object, one of HTTP, and for options that cannot be.
  [[nodiscard]] std::unique_ptr<OutputFile> create(const std::string& url, const OutputOptions& options = {});
  /// What writers that were killed have left of objects whose URLs begin with `prefix`, `s3://BUCKET/KEY…`, and began
  /// before `older_than` ago; one that is still at it looks the same. Blocks. Throws `kIo`, and `kInvalidArgument` for
  /// other URLs: what is left in Google's store ends by itself after a week.
  [[nodiscard]] std::vector<UnfinishedUpload> unfinished_uploads(const std::string& prefix,
                                                                 std::chrono::seconds older_than);
  /// Removes it: its writer, where there is one, fails. Blocks. Throws `kIo`.
  void abort_upload(const UnfinishedUpload& upload);

  /// The URLs of all objects that begin with `prefix`, `s3://BUCKET/KEY…`, by pages. Blocks. Throws `kIo`, and
  /// `kInvalidArgument` for a URL of HTTP.
  [[nodiscard]] std::vector<std::string> list(const std::string& prefix);
  /// Names of objects and folders in the folder at a URL, in order: those that a wildcard matches, so not what belongs
  /// to folders that are exchanged as a whole. Blocks. Throws as `list`.
  [[nodiscard]] std::vector<std::string> plain_names_in(const std::string& folder);
  /// Removes objects of one bucket; those that are not there are fine. Blocks. Throws `kIo`, and `kInvalidArgument` as
  /// `list`.
  void remove(const std::vector<std::string>& urls);
  /// An object in a bucket as it is now: `look_at_object`.
  [[nodiscard]] std::optional<ObjectNow> look(const std::string& url, size_t most_bytes = 16 << 20);
  /// Of the store of an object: ObjectStore.
  [[nodiscard]] bool keeps_if_absent(const std::string& url);
  [[nodiscard]] bool keeps_if_version(const std::string& url);
  /// Whatever this process knows of an object: it is asked for anew.
  void forget(const std::string& url);

  /// Bytes of an object in a bucket, where a listing has named it.
  [[nodiscard]] std::optional<uint64_t> listed_size(const std::string& url);

  /// The name of the object at a URL, with that of its store: the same URLs lead elsewhere by other endpoints.
  [[nodiscard]] std::string identity(const std::string& url);

  /// Whether a path is a URL that this opens.
  [[nodiscard]] static bool opens(std::string_view path) {
    return path.starts_with("s3://") || path.starts_with("gs://") || path.starts_with("http://") ||
           path.starts_with("https://");
  }

 private:
  class Shared;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace millrace
