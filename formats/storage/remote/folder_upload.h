#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/formats/storage/file_stamp.h"
#include "millrace/formats/storage/remote/folder_manifest.h"
#include "millrace/formats/storage/remote/output_options.h"

namespace millrace {

/// CRC-32C of local files.
using FileChecksums = std::map<FileStamp, uint32_t>;

struct FolderUploadOptions {
  /// Objects of the folder as it is in the bucket stand for files of the same name, size and CRC-32C, which are not
  /// sent again. Default: false
  bool reuses = false;
  /// What is known of local files, which need not be read to find out whether an object stands for them; `commit` puts
  /// what is known of this upload's files in its place. Links to one file, unless it was written in the last two
  /// seconds, are then sent once, and one object stands for them: what the first of them that is added needs. Not to be
  /// used by two at a time. Default: null, nothing is known
  std::shared_ptr<FileChecksums> checksums = nullptr;
  /// Files that are sent at a time, at most, each by a thread of its own: in parts of 8 MiB, two at a time, and of a
  /// file of more than 64 MiB six. Default: 16
  int in_flight = 16;
  /// Bytes of parts that are held at a time, for which files wait; a single one goes whatever it takes. Default: 256
  /// MiB
  uint64_t bytes_in_flight = 256 << 20;
  /// Of the folder's manifest, where more are an error of `commit`. Default: as many as are read
  uint64_t most_manifest_bytes = FolderManifest::kMostBytes;
};

/// Writes a folder of a bucket that is exchanged as a whole: files go into it below an id, where nobody sees them
/// (`FolderManifest`), and `commit` makes them the folder's files, all at once, in the place of those that it had.
/// Until then, and without it, the folder is as it was.
///
/// Destruction without `commit`, and any failure, removes what was sent, as far as the store answers. What a process
/// leaves that is killed: `folder_leftovers`. Two that write one folder do not see each other: the last one's files are
/// there. Every failure throws `kIo` and names the URL or file; after one only destruction is left. One thread at a
/// time.
///
///     FolderUpload folder("s3://bucket/run");
///     folder.add("model/model.safetensors", "/tmp/run/model/model.safetensors");
///     folder.put("model/config.json", text);
///     folder.commit();
class FolderUpload {
 public:
  /// Asks for the folder's manifest where its objects are to be reused. Throws `kInvalidArgument` for a URL that is
  /// none of a bucket.
  explicit FolderUpload(std::string folder, FolderUploadOptions options = {});
  ~FolderUpload();
  FolderUpload(const FolderUpload&) = delete;
  FolderUpload& operator=(const FolderUpload&) = delete;

  /// Sends a local file, which must stay as it is until then: returns when it is among those in flight.
  /// `sent` is called when it is there, on another thread, and must not throw. It throws for an earlier one, too.
  void add(std::string name, std::string path, std::function<void()> sent = nullptr);
  /// Sends a file of these bytes; the same otherwise.
  void put(std::string name, std::string bytes);
  /// The folder as it was at first, where its objects are reused.
  const FolderManifest& earlier() const { return earlier_; }
  /// A file of that stays as it is, and is not added.
  void keep(const FolderFile& file);
  /// Waits until all is there and exchanges the folder. The objects of the earlier one are removed, as far as the store
  /// does it.
  void commit();

  const std::string& id() const { return manifest_.id; }
  /// Bytes that were sent, of files that were not reused.
  [[nodiscard]] uint64_t bytes_sent() const;

 private:
  struct Work {
    FolderFile file = {};
    std::string path = {};                  // of a local file
    std::optional<std::string> bytes = {};  // in its place
    std::optional<FileStamp> stamp = {};    // of the local file, before it was read
    std::function<void()> sent = nullptr;
    OutputOptions parts = {};
    uint64_t bytes_in_flight = 0;  // most bytes of its parts
  };

  void start(Work work);
  void run();
  void send(Work& work);
  bool reuse(Work& work) const;
  [[nodiscard]] const uint32_t* known_crc(const Work& work) const;
  void wait_for_all();
  void name_links();
  void remove_replaced(const FolderManifest& replaced) const noexcept;
  void end_threads();
  [[nodiscard]] std::string url_of(const FolderFile& file) const;

  const std::string folder_;  // without a slash at its end
  const FolderUploadOptions options_;
  FolderManifest earlier_;  // its objects may be reused
  std::map<FileStamp, std::string> first_names_;
  std::vector<std::pair<std::string, std::string>> links_;  // names, and the first ones of their files

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> waiting_;
  int num_at_work_ = 0;           // files that wait or are being sent
  uint64_t bytes_in_flight_ = 0;  // of these
  bool ends_ = false;
  std::exception_ptr error_;  // the first one
  FolderManifest manifest_;
  FileChecksums checksums_;  // of its local files
  uint64_t bytes_sent_ = 0;
  std::vector<std::thread> threads_;
  bool committed_ = false;
};

}  // namespace millrace
