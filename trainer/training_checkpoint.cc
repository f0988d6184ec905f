#include "trainer/training_checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "formats/error.h"
#include "formats/safetensors/reader.h"
#include "formats/safetensors/writer.h"
#include "formats/storage/atomic_file.h"
#include "trainer/parameter_file.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 1;
constexpr std::string_view kPrefix = "checkpoint-";
// In front, so that such a directory never matches kPrefix.
constexpr std::string_view kUnfinished = ".tmp-checkpoint-";
constexpr std::string_view kDoomed = ".removed-checkpoint-";
constexpr std::string_view kModelFile = "model.safetensors";
constexpr std::string_view kOptimizerFile = "optimizer.safetensors";
constexpr std::string_view kTrainingFile = "training.json";

[[noreturn]] void fail(const std::string& path, std::string_view what, int number) {
  throw ErrorException(
      {.code = ErrorCode::kIo, .message = fmt::format("{}: {}", what, std::strerror(number)), .shard = path});
}

void sync(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(path, "cannot open what was written", errno);
  const int result = ::fsync(descriptor);
  const int number = errno;
  ::close(descriptor);
  if (result != 0) fail(path, "cannot bring it to the disk", number);
}

template <typename Call>
void checked(const std::string& path, std::string_view what, const Call& call) {
  std::error_code code;
  call(code);
  if (code) fail(path, what, code.value());
}

// A directory under a final name is first renamed, so that a removal cut short leaves no half of it there.
void remove_whole(const fs::path& path) {
  const fs::path doomed = path.parent_path() / (std::string(kDoomed) + path.filename().string().substr(kPrefix.size()));
  checked(doomed.string(), "cannot remove the directory", [&](std::error_code& code) { fs::remove_all(doomed, code); });
  checked(path.string(), "cannot rename the directory", [&](std::error_code& code) { fs::rename(path, doomed, code); });
  checked(doomed.string(), "cannot remove the directory", [&](std::error_code& code) { fs::remove_all(doomed, code); });
}

void give_final_name(const fs::path& temporary, const fs::path& path) {
  if (::rename(temporary.c_str(), path.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST) fail(path.string(), "cannot give the checkpoint its name", errno);
  // A checkpoint of this step is there. Exchanged in one call, the name always stands for a whole one.
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) {
    checked(temporary.string(), "cannot remove the directory",
            [&](std::error_code& code) { fs::remove_all(temporary, code); });
    return;
  }
  // Not every file system can: then the name is missing for a moment, but never damaged.
  remove_whole(path);
  if (::rename(temporary.c_str(), path.c_str()) != 0) fail(path.string(), "cannot give the checkpoint its name", errno);
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  checked(folder.string(), "cannot read the folder", [&](std::error_code& code) {
    for (fs::directory_iterator entry(folder, code); !code && entry != fs::end(entry); entry.increment(code)) {
      entries.push_back(entry->path());
    }
  });
  return entries;
}

// A directory and all in it.
void sync_all(const fs::path& directory) {
  for (const fs::path& entry : entries_of(directory)) {
    if (fs::is_directory(entry)) {
      sync_all(entry);
    } else {
      sync(entry.string());
    }
  }
  sync(directory.string());
}

// How a slot's tensors are called: the parameter's name and this.
std::string slot_suffix(const Optimizer& optimizer, size_t slot) {
  return fmt::format(".{}", optimizer.slot_names()[slot]);
}

void read_all(const std::string& path, const ParameterLayout& layout, const std::vector<ParameterBuffer>& buffers) {
  read_parameters(SafetensorsFile(path), path, layout, buffers);
}

void need_same(const std::string& path, std::string_view what, const std::string& there, const std::string& here) {
  if (there == here) return;
  throw ErrorException(
      {.code = ErrorCode::kInvalidArgument,
       .message = fmt::format("the checkpoint was made with the {} {}, this run has {}", what, there, here),
       .shard = path});
}

// What training.json says.
struct Description {
  std::string path;
  TrainingProgress progress;
  std::string optimizer;
  std::string schedule;
};

Description read_description(const std::string& directory) {
  Description found;
  found.path = (fs::path(directory) / kTrainingFile).string();
  std::ifstream stream(found.path);
  if (!stream) fail(found.path, "cannot open the file", errno);
  try {
    const nlohmann::json json = nlohmann::json::parse(stream);
    if (const int version = json.at("version").get<int>(); version != kVersion) {
      throw ErrorException({.code = ErrorCode::kParse,
                            .message = fmt::format("version {}; {} is known", version, kVersion),
                            .shard = found.path});
    }
    found.progress = {.step = json.at("step").get<int64_t>(),
                      .updates = json.at("updates").get<int64_t>(),
                      .skipped_in_a_row = json.at("skipped_in_a_row").get<int64_t>(),
                      .seed = json.at("seed").get<uint64_t>(),
                      .epoch = json.at("epoch").get<int64_t>(),
                      .in_epoch = json.at("in_epoch").get<bool>(),
                      .unreported = {.sum_loss = json.at("unreported_sum_loss").get<double>(),
                                     .weight = json.at("unreported_weight").get<double>()}};
    found.optimizer = json.at("optimizer").get<std::string>();
    found.schedule = json.at("schedule").get<std::string>();
  } catch (const nlohmann::json::exception& error) {
    throw ErrorException({.code = ErrorCode::kParse, .message = error.what(), .shard = found.path});
  }
  return found;
}

}  // namespace

CheckpointFolder::CheckpointFolder(std::string folder, Options options)
    : folder_(std::move(folder)), options_(std::move(options)) {
  if (folder_.empty()) throw ErrorException(ErrorCode::kInvalidArgument, "checkpoints need a folder");
  if (options_.keep_last < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("keep_last is {}; at least 1 is needed", options_.keep_last));
  }
}

std::string CheckpointFolder::save(const TrainingProgress& progress, const ParameterLayout& layout,
                                   const TrainedState& state, const Optimizer& optimizer, const Schedule& schedule) {
  checked(folder_, "cannot make the folder", [&](std::error_code& code) { fs::create_directories(folder_, code); });
  // What a killed process left behind.
  for (const fs::path& path : entries_of(folder_)) {
    const std::string name = path.filename().string();
    if (!name.starts_with(kUnfinished) && !name.starts_with(kDoomed)) continue;
    checked(path.string(), "cannot remove the directory", [&](std::error_code& code) { fs::remove_all(path, code); });
  }
  const std::string number = fmt::format("{:08}", progress.step);
  const fs::path path = fs::path(folder_) / (std::string(kPrefix) + number);
  const fs::path temporary = fs::path(folder_) / (std::string(kUnfinished) + number);
  checked(temporary.string(), "cannot make the directory",
          [&](std::error_code& code) { fs::create_directory(temporary, code); });
  try {
    write_safetensors((temporary / kModelFile).string(), parameter_tensors(layout, state.weights.span()),
                      {{"format", "pt"}});
    std::vector<NamedTensor> slots;
    for (size_t slot = 0; slot < state.slots.size(); ++slot) {
      const std::vector<NamedTensor> more =
          parameter_tensors(layout, state.slots[slot].span(), slot_suffix(optimizer, slot));
      slots.insert(slots.end(), more.begin(), more.end());
    }
    write_safetensors((temporary / kOptimizerFile).string(), slots);
    const nlohmann::ordered_json json = {{"version", kVersion},
                                         {"step", progress.step},
                                         {"updates", progress.updates},
                                         {"skipped_in_a_row", progress.skipped_in_a_row},
                                         {"seed", progress.seed},
                                         {"epoch", progress.epoch},
                                         {"in_epoch", progress.in_epoch},
                                         {"unreported_sum_loss", progress.unreported.sum_loss},
                                         {"unreported_weight", progress.unreported.weight},
                                         {"optimizer", optimizer.describe()},
                                         {"schedule", schedule.describe()}};
    AtomicFile file((temporary / kTrainingFile).string());
    file.write(json.dump(1) + "\n");
    file.commit();
    if (options_.more_files) options_.more_files(temporary.string());
    sync_all(temporary);
    give_final_name(temporary, path);
    sync(folder_);
  } catch (...) {
    std::error_code ignored;  // the error that matters is on its way
    fs::remove_all(temporary, ignored);
    throw;
  }
  const std::vector<std::string> all = paths();
  const auto saved = std::find(all.begin(), all.end(), path.string()) - all.begin();
  for (ptrdiff_t i = 0; i + options_.keep_last <= saved; ++i) remove_whole(all[static_cast<size_t>(i)]);
  return path.string();
}

std::vector<std::string> CheckpointFolder::paths() const {
  std::vector<std::string> found;
  if (!fs::exists(folder_)) return found;
  for (const fs::path& path : entries_of(folder_)) {
    const std::string name = path.filename().string();
    const bool numbered = name.starts_with(kPrefix) && name.size() >= kPrefix.size() + 8 &&
                          name.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos;
    if (numbered) found.push_back(path.string());
  }
  // Longer numbers are larger ones.
  std::sort(found.begin(), found.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return found;
}

TrainingProgress read_progress(const std::string& directory) { return read_description(directory).progress; }

TrainingProgress load_checkpoint(const std::string& directory, const ParameterLayout& layout, TrainedState& state,
                                 const Optimizer& optimizer, const Schedule& schedule) {
  const Description there = read_description(directory);
  need_same(there.path, "optimizer", there.optimizer, optimizer.describe());
  need_same(there.path, "schedule", there.schedule, schedule.describe());

  TrainedState loaded(layout, optimizer);
  read_all((fs::path(directory) / kModelFile).string(), layout, {{.values = loaded.weights.span()}});
  std::vector<ParameterBuffer> slots;
  for (size_t slot = 0; slot < loaded.slots.size(); ++slot) {
    slots.push_back({.values = loaded.slots[slot].span(), .suffix = slot_suffix(optimizer, slot)});
  }
  read_all((fs::path(directory) / kOptimizerFile).string(), layout, slots);
  // Into the buffers that are there: a step graph points to them.
  std::copy(loaded.weights.span().begin(), loaded.weights.span().end(), state.weights.data());
  for (size_t slot = 0; slot < loaded.slots.size(); ++slot) {
    std::copy(loaded.slots[slot].span().begin(), loaded.slots[slot].span().end(), state.slots[slot].data());
  }
  return there.progress;
}

}  // namespace millrace
