#include "millrace/trainer/run/output_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/atomic_directory.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/folder_names.h"
#include "millrace/formats/storage/remote/object_folder.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/formats/storage/whole_file.h"
#include "millrace/trainer/checkpoint/best_models.h"
#include "millrace/trainer/checkpoint/training_checkpoint.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// What a run leaves in OUT that is worth keeping; its logs go with it.
constexpr std::array kResults = {"checkpoints", "model", "best"};
constexpr const char* kTensorboard = "tensorboard";
constexpr const char* kLog = "log.jsonl";
constexpr const char* kNewLog = "log.jsonl.new";  // until it takes the place of an earlier run's

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

[[noreturn]] void fail(std::string_view what, const fs::path& path, std::error_code code) {
  throw ErrorException(
      {.code = ErrorCode::kIo, .message = fmt::format("{}: {}", what, code.message()), .shard = path.string()});
}

// Which of `kResults` are in OUT.
std::vector<std::string> results_in(const std::string& out) {
  std::vector<std::string> results;
  const std::shared_ptr<RemoteStorage> storage = is_in_bucket(out) ? RemoteStorage::of_process() : nullptr;
  for (const char* name : kResults) {
    const std::string path = path_in(out, name);
    const bool is_there = storage == nullptr ? fs::exists(path) : has_files(*storage, path);
    if (is_there) results.emplace_back(name);
  }
  return results;
}

// What is in OUT is then the run's own.
bool goes_on_in_place(const RunOptions& options) {
  return lies_below(options.resume, path_in(options.out, "checkpoints"));
}

// By the first step most of what can be wrong with a run has been found. One that goes on from a checkpoint elsewhere
// replaces the earlier run when it starts. Of OUT/tensorboard only event files that were there before are removed.
class EarlierRunRemover final : public Callback {
 public:
  EarlierRunRemover(const RunOptions& options, bool log)
      : out_(options.out), results_(options.overwrite), log_(log), goes_on_(!options.resume.empty()) {}
  ~EarlierRunRemover() override {
    std::error_code code;
    if (!due_) return;
    if (log_) fs::remove(out_ / kNewLog, code);  // what is left for want of rights is replaced by the next run
    if (!started_ || !results_) return;
    for (const fs::path& file : event_files(code)) {  // TensorBoard would hide the curves of the run that stays
      if (!std::ranges::count(event_files_, file)) fs::remove(file, code);
    }
  }
  EarlierRunRemover(const EarlierRunRemover&) = delete;
  EarlierRunRemover& operator=(const EarlierRunRemover&) = delete;

  void train_starts(const TrainingStart&) override {
    std::error_code code;
    if (results_) event_files_ = event_files(code);
    if (code) fail("cannot read the folder", out_ / kTensorboard, code);
    started_ = true;
    // One that goes on may evaluate or end before it makes a step.
    if (goes_on_) remove();
  }
  void step_ends(const StepEnd&) override {
    if (due_) remove();
  }
  void train_ends(const TrainingSummary&) override {
    // Stopped before its first step: a log that stood alone is of no run that is still there.
    if (due_ && !results_) remove();
  }

 private:
  std::vector<fs::path> event_files(std::error_code& code) const {
    std::vector<fs::path> files;
    const fs::path folder = out_ / kTensorboard;
    if (!fs::exists(folder, code)) return files;
    for (const std::string& name : names_in(folder.string(), code)) {
      if (name.starts_with("events.out.tfevents.")) files.push_back(folder / name);
    }
    return files;
  }

  void remove() {
    due_ = false;
    std::error_code code;
    if (log_) fs::rename(out_ / kNewLog, out_ / kLog, code);
    if (code) fail("cannot put the new log in its place", out_ / kLog, code);
    if (!results_) return;
    for (const char* name : kResults) remove_directory((out_ / name).string());
    for (const fs::path& file : event_files_) {
      if (!fs::remove(file, code) && code) fail("cannot remove it", file, code);
    }
  }

  fs::path out_;
  bool results_;  // those of an earlier run may be there
  bool log_;      // one is there
  bool goes_on_;
  bool started_ = false;
  bool due_ = true;
  std::vector<fs::path> event_files_;
};

}  // namespace

bool lies_below(const std::string& path, const std::string& folder) {
  if (path.empty() || folder.empty() || is_in_bucket(path) != is_in_bucket(folder)) return false;
  if (is_in_bucket(folder)) return path == folder || path.starts_with(path_in(folder, ""));
  const auto place = [](const std::string& name) { return fs::weakly_canonical(fs::absolute(name)); };
  const fs::path relative = place(path).lexically_relative(place(folder));
  return !relative.empty() && *relative.begin() != "..";
}

std::string newest_checkpoint_in_bucket(const std::string& folder) {
  const auto files = files_in_folders(*RemoteStorage::of_process(), folder);
  if (!files || files->empty()) return {};
  std::string newest;
  for (const FoundFile& found : *files) {
    const std::string name = found.file.name.substr(0, found.file.name.find('/'));
    if (name.size() == found.file.name.size() || !name.starts_with("checkpoint-")) continue;
    // Longer ones have larger numbers.
    if (std::pair(name.size(), name) > std::pair(newest.size(), newest)) newest = name;
  }
  return newest.empty() ? newest : path_in(folder, newest);
}

std::string model_folder(const std::string& folder, std::string_view written_by) {
  if (fs::exists(fs::path(folder) / "config.json")) return folder;
  const std::vector<BestModel> best = best_models_in(folder);
  if (best.empty())
    refuse(fmt::format("no model in '{}' (no config.json); {} writes one to OUT/model", folder, written_by));
  return best.front().path;
}

void check_output_folder(const RunOptions& options) {
  if (options.overwrite) {
    for (const char* name : kResults) {
      if (!lies_below(options.resume, path_in(options.out, name))) continue;
      refuse(fmt::format("--overwrite would remove {}, which --resume goes on from; leave --overwrite out",
                         options.resume));
    }
    return;
  }
  if (goes_on_in_place(options)) return;
  for (const std::string& name : results_in(options.out)) {
    if (options.resume.empty()) {
      refuse(fmt::format("{} holds {} of an earlier run; give --overwrite, --resume last, or another --out",
                         options.out, name));
    }
    refuse(
        fmt::format("{} holds {} of an earlier run, and {} is not one of its checkpoints; give --overwrite, a "
                    "checkpoint in {}/checkpoints, or another --out",
                    options.out, name, options.resume, options.out));
  }
}

RunOptions with_newest_checkpoint(RunOptions options) {
  if (options.resume != "last") return options;
  if (options.out.empty()) refuse("--resume last goes on in --out, which is empty");
  const std::string checkpoints = path_in(options.out, "checkpoints");
  options.resume = is_in_bucket(options.out) ? newest_checkpoint_in_bucket(checkpoints)
                                             : newest_checkpoint(checkpoints).value_or("");
  // What a run left that was killed before its first checkpoint is of no use to this one.
  const std::vector<std::string> results = results_in(options.out);
  if (options.resume.empty() && std::ranges::find(results, "model") == results.end()) options.overwrite = true;
  return options;
}

OutputFolder::OutputFolder(const RunOptions& options) : options_(options) {
  for (fs::path folder = options_.out; !folder.empty() && !fs::exists(folder); folder = folder.parent_path()) {
    made_.push_back(folder);
  }
  make_folder(options_.out);
  lock_.emplace(options_.out, "training in");
  check_output_folder(options_);
  std::error_code code;
  fs::remove(path(kNewLog), code);  // of a run that was killed before its first step
  if (code) fail("cannot remove it", path(kNewLog), code);
  replaces_log_ = !goes_on_in_place(options_) && fs::exists(path(kLog));
}

OutputFolder::~OutputFolder() {
  std::error_code code;
  if (fs::is_empty(log(), code)) fs::remove(log(), code);  // nothing had begun
  for (const fs::path& folder : made_) fs::remove(folder, code);
}

std::string OutputFolder::log() const { return path(replaces_log_ ? kNewLog : kLog); }

std::unique_ptr<Callback> OutputFolder::earlier_run_remover() const {
  if (!options_.overwrite && !replaces_log_) return nullptr;
  return std::make_unique<EarlierRunRemover>(options_, replaces_log_);
}

// The state in a checkpoint counts what was left out. Lines that the list has beyond that count are cut when it goes
// on.
void OutputFolder::save_skipped_list(const std::string& checkpoint) const {
  if (!fs::exists(skipped())) return;
  write_atomically(checkpoint + "/skipped.jsonl", read_whole_file(skipped()));
}

void OutputFolder::take_over_skipped_list() const {
  const std::string there = options_.resume + "/skipped.jsonl";
  // Checkpoints of earlier versions have none: then the list is expected to be in OUT.
  if (options_.resume.empty() || !fs::exists(there)) return;
  write_atomically(skipped(), read_whole_file(there));
}

}  // namespace millrace
