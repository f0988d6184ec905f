#pragma once

#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "millrace/formats/storage/folder_lock.h"
#include "millrace/formats/storage/remote/folder_upload.h"
#include "millrace/formats/storage/remote/object_lock.h"
#include "millrace/trainer/callback.h"
#include "millrace/trainer/run/run_options.h"

namespace millrace {

/// Throws `kInvalidArgument` where a run cannot be written to a URL without a slash at its end: it is none of a folder
/// in a bucket.
void check_output_url(const std::string& url);

/// The folder of a run that lies in a bucket, `s3://BUCKET/FOLDER`. The run works in a local one, in the system's
/// folder of temporary files, and what is in that is sent with each checkpoint and at the end: files that have changed
/// since, then the folder of the bucket is exchanged for it as a whole (FolderUpload). An object LOCK keeps other runs
/// out (ObjectLock).
///
/// Whoever goes on from `last` gets the newest checkpoint and the logs; older checkpoints, `best` and `model` stay in
/// the bucket until the run has others.
///
/// A run that was killed here with checkpoints that are not in the bucket goes on in its local folder where a
/// checkpoint of that training is in the bucket; else, where it was still to replace what is there, and for whoever
/// begins another one, the folder is moved away and named.
///
/// Training goes on while files are sent, until the next checkpoint. Sending that fails is told, and made up for by the
/// next checkpoint; at the end it is an error. What could not be sent, or is of a run that ended by an error, stays in
/// a local folder that is named. One thread at a time.
class BucketOutput {
 public:
  /// Is told what takes time or fails; any thread.
  using Tell = std::function<void(const std::string& line)>;

  /// Takes the lock and brings over what the run goes on with. Throws as `check_output_folder` and ObjectLock do,
  /// `kIo`.
  BucketOutput(const RunOptions& options, Tell tell);
  ~BucketOutput();
  BucketOutput(const BucketOutput&) = delete;
  BucketOutput& operator=(const BucketOutput&) = delete;

  /// The options with local folders in the place of those in the bucket.
  [[nodiscard]] RunOptions localized(RunOptions options) const;
  /// What a path in the local folder is in the bucket; others as they are.
  [[nodiscard]] std::string shown(const std::string& path) const;

  /// Sends what is there now; files may grow or go meanwhile. Waits for an earlier sending. Nothing before the first
  /// step of a run that replaces an earlier one; where it goes on from a checkpoint, before its first own. Throws `kIo`
  /// where another run has taken the lock.
  void send();
  /// The same, and waits until it is there. Throws `kIo`.
  void finish();
  /// Calls `send` with each checkpoint. To be added after those that write logs.
  [[nodiscard]] std::unique_ptr<Callback> sender();
  /// Throws the error that is being handled, with what paths in the local folder are in the bucket.
  [[noreturn]] void rethrow_shown() const;

 private:
  class Sender;

  // Whether an earlier run is there.
  [[nodiscard]] bool check_folder(const RunOptions& options) const;
  [[nodiscard]] bool takes_up(const std::string& checkpoint, const RunOptions& options);
  void download(const RunOptions& options, const std::string& folder);
  void take_snapshot() const;
  void upload();
  [[nodiscard]] std::string run() const { return folder_ + "/run"; }
  // Is there until a run that replaces an earlier one has sent something.
  [[nodiscard]] std::string replaces() const { return folder_ + "/replaces"; }
  [[nodiscard]] std::exception_ptr wait();
  std::string put_away();

  const std::string url_;     // without a slash at its end
  const std::string folder_;  // the local one: `run` of what this has to itself, beside `sent`, what is being sent
  const Tell tell_;
  std::optional<FolderLock> own_;
  std::optional<ObjectLock> lock_;
  const std::shared_ptr<FileChecksums> checksums_ = std::make_shared<FileChecksums>();  // of what was sent
  std::future<void> sending_;
  bool is_unsent_ = false;  // something is, or may be, in the local folder alone
  // One that the first step of this run replaces, as in a local folder (EarlierRunRemover): until then nothing is sent.
  bool leaves_earlier_run_ = false;
  const bool goes_on_;        // from a checkpoint: it may write others, or end, without a step
  int keep_checkpoints_ = 0;  // of a run that has not brought all that is in the bucket; 0: it has
};

}  // namespace millrace
