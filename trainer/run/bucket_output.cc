#include "millrace/trainer/run/bucket_output.h"

#include <cerrno>
#include <exception>
#include <filesystem>
#include <functional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/folder_download.h"
#include "millrace/formats/storage/remote/folder_upload.h"
#include "millrace/formats/storage/remote/object_folder.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/formats/storage/shown_url.h"
#include "millrace/trainer/checkpoint/training_checkpoint.h"
#include "millrace/trainer/checkpoint/training_id.h"
#include "millrace/trainer/run/output_folder.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(std::string_view what, const fs::path& path, std::error_code code) {
  throw ErrorException(
      {.code = ErrorCode::kIo, .message = fmt::format("{}: {}", what, code.message()), .shard = path.string()});
}

// The same for each run into a URL: what a killed one has left is removed by the next. Nobody else may have made it.
std::string own_folder(const std::string& url) {
  check_output_url(url);
  const fs::path path =
      fs::temp_directory_path() / fmt::format("millrace-run-{:016x}-{}", std::hash<std::string>()(url), ::getuid());
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    fail("cannot make the folder that the run works in", path, std::error_code(errno, std::generic_category()));
  }
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != ::getuid()) {
    throw ErrorException({.code = ErrorCode::kIo,
                          .message = "the run would work in it, but it is not this user's folder",
                          .shard = path.string()});
  }
  return path.string();
}

void remove_all_in(const std::string& folder) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) fs::remove_all(entry.path(), code);
  if (code) fail("cannot clear the folder that the run works in", folder, code);
}

// Logs grow; what has its name in these is whole, and is replaced but never changed.
bool never_changes(const fs::path& name) {
  const std::string first = name.begin()->string();
  return first == "checkpoints" || first == "best" || first == "model";
}

// What AtomicFile, AtomicDirectory and remove_directory have not finished, and a log that has not replaced another's.
bool is_temporary(const fs::path& path) {
  const std::string name = path.filename();
  return name.starts_with('.') || name.find(".tmp-") != std::string::npos || name.ends_with(".new");
}

// Where file systems have no hard links.
void link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code no_links;
  fs::create_hard_link(from, to, no_links);
  if (no_links) fs::copy_file(from, to);
}

// Of a checkpoint by its path or URL: longer numbers are larger ones.
std::pair<size_t, std::string> number_of(const std::string& checkpoint) {
  std::string name = fs::path(checkpoint).filename();
  return {name.size(), std::move(name)};
}

// `checkpoints/checkpoint-00000020` of a file in it; empty: of others.
std::string checkpoint_of(const std::string& name) {
  constexpr std::string_view kFolder = "checkpoints/";
  const size_t slash = name.find('/', kFolder.size());
  return name.starts_with(kFolder) && slash != std::string::npos ? name.substr(0, slash) : std::string();
}

// What stays of the folder as it is in the bucket, besides the files in `sent`: what a local run would find there and
// has not replaced. Of checkpoints those that `keep` has room for, the newest; `best` and `model` until there are
// others; event files, whose names are of one process.
std::vector<FolderFile> left_alone(const FolderManifest& there, const fs::path& sent, int keep) {
  const auto is_sent = [&](const std::string& folder) {
    return fs::exists(sent / folder) && !fs::is_empty(sent / folder);
  };
  const auto num_sent = std::ssize(checkpoints_in(sent / "checkpoints"));
  std::set<std::pair<size_t, std::string>> checkpoints;
  for (const FolderFile& file : there.files) {
    const std::string checkpoint = checkpoint_of(file.name);
    if (!checkpoint.empty() && !is_sent(checkpoint)) checkpoints.insert(number_of(checkpoint));
  }
  while (!checkpoints.empty() && num_sent + std::ssize(checkpoints) > keep) checkpoints.erase(checkpoints.begin());
  std::vector<FolderFile> left;
  for (const FolderFile& file : there.files) {
    const std::string checkpoint = checkpoint_of(file.name);
    const std::string first = file.name.substr(0, file.name.find('/'));
    const bool stays = !checkpoint.empty()      ? checkpoints.contains(number_of(checkpoint))
                       : first == "tensorboard" ? !fs::exists(sent / file.name)
                                                : (first == "best" || first == "model") && !is_sent(first);
    if (stays) left.push_back(file);
  }
  return left;
}

// Of a run.
bool is_of_run(const std::string& name) {
  const std::string first = name.substr(0, name.find('/'));
  return first == "checkpoints" || first == "best" || first == "model" || first == "tensorboard" ||
         name == "log.jsonl" || name == "skipped.jsonl";
}

}  // namespace

void check_output_url(const std::string& url) {
  if (is_folder_in_bucket(url)) return;
  throw ErrorException({.code = ErrorCode::kInvalidArgument,
                        .message = "a run is written to a local folder or to one of a bucket, s3://BUCKET/FOLDER or "
                                   "gs://BUCKET/FOLDER",
                        .shard = shown_url(url)});
}

class BucketOutput::Sender final : public Callback {
 public:
  explicit Sender(BucketOutput& output) : output_(output) {}
  void train_starts(const TrainingStart&) override { output_.is_unsent_ = !output_.leaves_earlier_run_; }
  void checkpoint_written(const std::string&) override {
    if (output_.goes_on_) output_.leaves_earlier_run_ = false;
    output_.send();
  }
  void step_ends(const StepEnd&) override {
    output_.leaves_earlier_run_ = false;
    output_.is_unsent_ = true;
  }

 private:
  BucketOutput& output_;
};

BucketOutput::BucketOutput(const RunOptions& options, Tell tell)
    : url_(without_slash(options.out)),
      folder_(own_folder(url_)),
      tell_(std::move(tell)),
      goes_on_(!options.resume.empty()) {
  lock_.emplace(path_in(url_, FolderManifest::kLock), "training in", ObjectLockOptions{.tell = tell_});
  own_.emplace(folder_, "training in");
  const std::optional<std::string> left = newest_checkpoint(run() + "/checkpoints");  // by one that was killed
  bool may_be_here_alone = left.has_value();
  try {
    const bool is_there = check_folder(options);
    leaves_earlier_run_ = is_there && options.resume != "last" && !options.resume.starts_with(url_ + '/');
    if (left && takes_up(*left, options)) return;
    may_be_here_alone = false;
    remove_all_in(folder_);
    const std::string begun = folder_ + "/begun";
    fs::create_directory(begun);
    fs::permissions(begun, fs::perms::owner_all);
    if (leaves_earlier_run_) fs::create_directory(replaces());
    if (is_there && !leaves_earlier_run_) download(options, begun);
    fs::rename(begun, run());  // where all is whole
  } catch (...) {
    std::error_code ignored;
    if (!may_be_here_alone) fs::remove_all(folder_, ignored);
    throw;
  }
}

BucketOutput::~BucketOutput() {
  static_cast<void>(wait());
  if (is_unsent_) {  // of a run that ended by an error, or whose last sending failed
    try {
      finish();
    } catch (const std::exception& exception) {
      tell_(exception.what());
    }
  }
  lock_.reset();
  std::error_code ignored;
  if (!is_unsent_) fs::remove_all(folder_, ignored);
}

// What is there besides a run would be lost with the first exchange, or be read in the place of the run's files.
bool BucketOutput::check_folder(const RunOptions& options) const {
  const auto refuse = [this](const std::string& name) {
    throw ErrorException({.code = ErrorCode::kInvalidArgument,
                          .message = fmt::format("'{}' is in the way and not of an earlier run: choose another --out",
                                                 path_in(url_, name)),
                          .shard = url_});
  };
  const std::shared_ptr<RemoteStorage> storage = RemoteStorage::of_process();
  storage->forget(path_in(url_, FolderManifest::kObject));
  const FolderManifest there = find_manifest(*storage, url_).value_or(FolderManifest());
  for (const FolderFile& file : there.files) {
    if (!is_of_run(file.name)) refuse(file.name);
  }
  for (const std::string& name : storage->plain_names_in(url_)) {
    if (is_of_run(name)) refuse(name);
  }
  if (options.resume != "last" && !options.resume.starts_with(url_ + '/')) {
    check_output_folder(options);
  } else if (!has_files(*storage, path_in(url_, "checkpoints")) && has_files(*storage, path_in(url_, "model"))) {
    // `last`, of a run that has ended and has no checkpoints.
    RunOptions anew = options;
    anew.resume.clear();
    check_output_folder(anew);
  }
  return !there.files.empty();
}

// Whether the run goes on in the folder that a killed one has left, whose newest checkpoint this is: where it is of the
// training in the bucket, and newer. Numbers of another training say nothing, nor do those of one that was to replace
// it, which has its id where it began from its checkpoint: that is put away, as is what is newer and not gone on with.
bool BucketOutput::takes_up(const std::string& checkpoint, const RunOptions& options) {
  const std::string sent = newest_checkpoint_in_bucket(path_in(url_, "checkpoints"));
  const std::optional<std::string> training = read_training_id(checkpoint);
  const bool is_same = !fs::exists(replaces()) && !sent.empty() && training &&
                       find_whole_anywhere(path_in(sent, "training.id")) == *training + '\n';
  if (is_same && number_of(checkpoint) <= number_of(sent)) return false;
  if (is_same && options.resume == "last") {
    tell_(fmt::format("going on in {}, where a run was killed that had not sent its newest checkpoint to {}", run(),
                      url_));
    keep_checkpoints_ = options.keep_checkpoints;
    is_unsent_ = true;
    return true;
  }
  const std::string kept = put_away();
  if (kept == run()) {
    throw ErrorException({.code = ErrorCode::kIo,
                          .message = fmt::format("a run was killed whose newest checkpoint is not in {}, and its "
                                                 "folder is in the way and cannot be moved",
                                                 url_),
                          .shard = kept});
  }
  tell_(fmt::format("a run was killed here whose newest checkpoint is not in {}: what it had is in {}", url_, kept));
  return false;
}

// Who goes on from `last` reads the newest checkpoint, in which its best models are, and writes on in the logs.
void BucketOutput::download(const RunOptions& options, const std::string& folder) {
  tell_(fmt::format("bringing what is in {} to {}", url_, run()));
  std::string newest;
  if (options.resume == "last") newest = newest_checkpoint_in_bucket(path_in(url_, "checkpoints"));
  if (!newest.empty()) keep_checkpoints_ = options.keep_checkpoints;
  download_folder(url_, folder, [&](const std::string& name) {
    if (newest.empty()) return true;
    const std::string checkpoint = checkpoint_of(name);
    if (!checkpoint.empty()) return path_in(url_, checkpoint) == newest;
    return !name.starts_with("best/") && !name.starts_with("model/");
  });
}

RunOptions BucketOutput::localized(RunOptions options) const {
  options.out = run();
  if (options.resume.starts_with(url_ + '/')) {
    options.resume = options.out + options.resume.substr(url_.size());
  }
  return options;
}

std::string BucketOutput::shown(const std::string& path) const {
  return path.starts_with(run() + '/') ? url_ + path.substr(run().size()) : path;
}

void BucketOutput::send() {
  if (leaves_earlier_run_) return;
  is_unsent_ = true;
  if (const std::exception_ptr error = wait(); error != nullptr) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& exception) {
      tell_(fmt::format("what the checkpoint before has is not in {} yet: {}", url_, exception.what()));
    }
  }
  if (lock_->is_lost()) lock_->require_held();  // throws
  take_snapshot();
  sending_ = std::async(std::launch::async, [this] { upload(); });
}

void BucketOutput::finish() {
  std::exception_ptr error;
  try {
    send();
    error = wait();
  } catch (...) {
    error = std::current_exception();
  }
  is_unsent_ = error != nullptr;
  if (error == nullptr) return;
  const std::string kept = put_away();
  try {
    std::rethrow_exception(error);
  } catch (const ErrorException& exception) {
    Error named = exception.error();
    named.message += "; what it lacks is in " + kept;
    throw ErrorException(std::move(named));
  } catch (const std::exception& exception) {
    throw ErrorException({.code = ErrorCode::kIo,
                          .message = fmt::format("{}; what it lacks is in {}", exception.what(), kept),
                          .shard = url_});
  }
}

void BucketOutput::rethrow_shown() const {
  try {
    throw;
  } catch (const ErrorException& exception) {
    Error error = exception.error();
    for (std::string* text : {&error.message, &error.shard}) {
      for (size_t at = text->find(run()); at != std::string::npos; at = text->find(run(), at + url_.size())) {
        text->replace(at, run().size(), url_);
      }
    }
    throw ErrorException(std::move(error));
  }
}

std::unique_ptr<Callback> BucketOutput::sender() { return std::make_unique<Sender>(*this); }

// Links and copies: the run goes on in its folder.
void BucketOutput::take_snapshot() const {
  const fs::path from = run();
  const fs::path to = folder_ + "/sent";
  std::error_code code;
  fs::remove_all(to, code);
  fs::create_directories(to);
  for (auto at = fs::recursive_directory_iterator(from); at != fs::recursive_directory_iterator(); ++at) {
    const fs::path name = at->path().lexically_relative(from);
    if (is_temporary(name)) {
      at.disable_recursion_pending();
    } else if (at->is_directory()) {
      fs::create_directories(to / name);
    } else if (never_changes(name)) {
      link_or_copy(at->path(), to / name);
    } else {
      fs::copy_file(at->path(), to / name);
    }
  }
}

void BucketOutput::upload() {
  const fs::path from = folder_ + "/sent";
  FolderUpload folder(url_, {.reuses = true, .checksums = checksums_});
  // In order: what is in `best`, then links to it in checkpoints, first in older ones, so that an object that is there
  // stands for all.
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    if (entry.is_regular_file()) names.insert(entry.path().lexically_relative(from));
  }
  for (const std::string& name : names) folder.add(name, from / name);
  if (keep_checkpoints_ > 0) {
    for (const FolderFile& file : left_alone(folder.earlier(), from, keep_checkpoints_)) folder.keep(file);
  }
  lock_->require_held();
  folder.commit();
  std::error_code ignored;
  fs::remove(replaces(), ignored);
}

// Out of the way of the next run into this URL, which clears its folder; where it cannot be moved it stays.
std::string BucketOutput::put_away() {
  std::string kept = fmt::format("{}-unsent-{}", folder_, make_folder_id());
  std::error_code code;
  fs::rename(run(), kept, code);
  if (code) return run();
  is_unsent_ = false;
  return kept;
}

// Why the last sending failed; null: it did not.
std::exception_ptr BucketOutput::wait() {
  if (!sending_.valid()) return nullptr;
  try {
    sending_.get();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace millrace
