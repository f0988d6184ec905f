#include "millrace/trainer/checkpoint/best_models.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/storage/atomic_directory.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/folder_names.h"
#include "millrace/formats/storage/whole_file.h"
#include "millrace/trainer/checkpoint/numbered_directory.h"
#include "millrace/trainer/checkpoint/training_id.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 1;
constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kListFile = "best.json";
constexpr std::string_view kEvaluationFile = "evaluation.json";
constexpr std::string_view kModels = "best";  // in a checkpoint

[[noreturn]] void refuse(std::string message) { throw ErrorException(ErrorCode::kInvalidArgument, std::move(message)); }

[[noreturn]] void fail(const fs::path& path, std::string_view what, const std::error_code& code) {
  throw ErrorException(ErrorCode::kIo, fmt::format("{} {}: {}", what, path.string(), code.message()));
}

std::string name_of(int64_t step) { return numbered_name(kPrefix, step); }

std::string to_string(Better better) { return better == Better::kLower ? "lower" : "higher"; }

// Of equal values the earlier one is the better.
bool is_better(const BestModel& a, const BestModel& b, Better better) {
  if (a.value == b.value) return a.step < b.step;
  return (better == Better::kLower) == (a.value < b.value);
}

nlohmann::json read_versioned(const std::string& file) {
  nlohmann::json json = parse_json(read_whole_file(file), file);
  if (const int version = json.at("version").get<int>(); version != kVersion) {
    throw ErrorException({.code = ErrorCode::kParse,
                          .message = fmt::format("version {}; {} is known", version, kVersion),
                          .shard = file});
  }
  return json;
}

[[noreturn]] void refuse_json(const nlohmann::json::exception& error, const std::string& file) {
  throw ErrorException({.code = ErrorCode::kParse, .message = error.what(), .shard = file});
}

void write_evaluation(const std::string& directory, const BestModel& model, const BestModels::Options& options) {
  const nlohmann::ordered_json json = {{"version", kVersion},
                                       {"metric", options.metric},
                                       {"better", to_string(*options.better)},
                                       {"step", model.step},
                                       {"value", model.value}};
  write_atomically((fs::path(directory) / kEvaluationFile).string(), json.dump(1) + "\n");
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code code;
  for (const std::string& name : names_in(folder.string(), code)) entries.push_back(folder / name);
  if (code) fail(folder, "cannot read the folder", code);
  return entries;
}

// All that is in a directory, into one that is there; files as hard links, or copies where there can be none.
void link_all(const fs::path& from, const fs::path& to) {
  for (const fs::path& entry : entries_of(from)) {
    const fs::path place = to / entry.filename();
    std::error_code code;
    if (fs::is_directory(entry)) {
      fs::create_directory(place, code);
      if (code) fail(place, "cannot make the directory", code);
      link_all(entry, place);
      continue;
    }
    fs::create_hard_link(entry, place, code);
    if (code) fs::copy_file(entry, place, code);
    if (code) fail(place, "cannot copy the file", code);
  }
}

}  // namespace

std::vector<BestModel> best_models_in(const std::string& folder) {
  std::vector<BestModel> models;
  std::optional<std::pair<std::string, std::string>> measure;  // metric and direction
  for (const std::string& directory : numbered_directories(folder, kPrefix)) {
    const std::string file = (fs::path(directory) / kEvaluationFile).string();
    try {
      const nlohmann::json json = read_versioned(file);
      const std::pair there(json.at("metric").get<std::string>(), json.at("better").get<std::string>());
      if (measure && *measure != there) {
        refuse(fmt::format("the models in {} are by several metrics: {}, {} is better, and {}, {} is better", folder,
                           measure->first, measure->second, there.first, there.second));
      }
      measure = there;
      models.push_back(
          {.step = json.at("step").get<int64_t>(), .value = json.at("value").get<double>(), .path = directory});
    } catch (const nlohmann::json::exception& error) {
      refuse_json(error, file);
    } catch (const ErrorException&) {
      if (fs::exists(directory)) throw;  // else it has fallen off the list meanwhile
    }
  }
  const Better better = measure && measure->second == to_string(Better::kHigher) ? Better::kHigher : Better::kLower;
  std::ranges::sort(models, [&](const BestModel& a, const BestModel& b) { return is_better(a, b, better); });
  return models;
}

Better better_of(const std::string& metric, std::optional<Better> said) {
  if (said) return *said;
  if (metric == "loss") return Better::kLower;
  refuse(fmt::format("say of '{}' whether the higher value is the better one or the lower", metric));
}

BestModels::BestModels(std::string folder, Options options, std::string training)
    : folder_(std::move(folder)), options_(std::move(options)), training_(std::move(training)) {
  if (folder_.empty()) throw ErrorException(ErrorCode::kInvalidArgument, "the best models need a folder");
  if (options_.metric.empty()) throw ErrorException(ErrorCode::kInvalidArgument, "the best models need a metric");
  if (options_.keep < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("keep is {}; at least 1 of the best models is needed", options_.keep));
  }
  options_.better = better_of(options_.metric, options_.better);
}

std::vector<std::string> BestModels::directories() const { return numbered_directories(folder_, kPrefix); }

// Models that nothing is known of are somebody's as well: they are not removed.
void BestModels::check_folder() const {
  if (options_.replace_others) return;
  const std::vector<std::string> there = directories();
  const auto others =
      std::ranges::count_if(there, [&](const std::string& path) { return read_training_id(path) != training_; });
  if (others == 0) return;
  refuse(fmt::format("the folder for the best models {} holds {} of another training; remove or move them", folder_,
                     others));
}

void BestModels::settle() {
  if (!settled_) {
    check_folder();
    make_folder(folder_);
    remove_unfinished_directories(folder_, kPrefix);
    for (const BestModel& model : models_) {
      AtomicDirectory directory(model.path);
      link_all(fs::path(resumed_from_) / kModels / name_of(model.step), directory.temporary_path());
      // Models in checkpoints of earlier versions have no id.
      if (read_training_id(directory.temporary_path()) != training_) {
        write_training_id(directory.temporary_path(), training_);
      }
      if (!fs::exists(fs::path(directory.temporary_path()) / kEvaluationFile)) {
        write_evaluation(directory.temporary_path(), model, options_);
      }
      directory.commit();
    }
    settled_ = true;
  }
  if (!models_.empty() || options_.replace_others) remove_unlisted();
  std::erase_if(models_, [](const BestModel& model) { return !fs::exists(model.path); });
}

// Not while the list is empty, unless that is asked for: what is there may be all that is left of a training.
void BestModels::remove_unlisted() {
  if (std::exchange(removed_unlisted_, true)) return;
  for (const std::string& path : directories()) {
    if (std::ranges::find(models_, path, &BestModel::path) == models_.end()) remove_directory(path);
  }
}

bool BestModels::offer(int64_t step, double value, const Write& write) {
  settle();
  if (!std::isfinite(value)) return false;
  std::vector<BestModel> models = models_;
  std::erase_if(models, [&](const BestModel& model) { return model.step == step; });
  BestModel model{.step = step, .value = value, .path = (fs::path(folder_) / name_of(step)).string()};
  const auto place =
      std::ranges::find_if(models, [&](const BestModel& other) { return is_better(model, other, *options_.better); });
  if (place - models.begin() >= options_.keep) return false;
  AtomicDirectory directory(model.path);
  write(directory.temporary_path());
  write_training_id(directory.temporary_path(), training_);
  write_evaluation(directory.temporary_path(), model, options_);
  directory.commit();
  models.insert(place, std::move(model));
  for (; models.size() > static_cast<size_t>(options_.keep); models.pop_back()) remove_directory(models.back().path);
  models_ = std::move(models);
  remove_unlisted();
  return true;
}

void BestModels::save_into(const std::string& checkpoint) {
  settle();
  nlohmann::ordered_json models = nlohmann::ordered_json::array();
  for (const BestModel& model : models_) {
    const fs::path in_checkpoint = fs::path(kModels) / name_of(model.step);
    const fs::path directory = fs::path(checkpoint) / in_checkpoint;
    make_folder(directory.string());
    link_all(model.path, directory);
    models.push_back({{"step", model.step}, {"value", model.value}, {"directory", in_checkpoint.string()}});
  }
  const nlohmann::ordered_json json = {{"version", kVersion},
                                       {"metric", options_.metric},
                                       {"better", to_string(*options_.better)},
                                       {"models", std::move(models)}};
  write_atomically((fs::path(checkpoint) / kListFile).string(), json.dump(1) + "\n");
}

void BestModels::carry_over(const std::string& from_checkpoint, const std::string& to_checkpoint) {
  const fs::path list = fs::path(from_checkpoint) / kListFile;
  if (!fs::exists(list)) return;
  if (fs::exists(fs::path(from_checkpoint) / kModels)) {
    const fs::path models = fs::path(to_checkpoint) / kModels;
    make_folder(models.string());
    link_all(fs::path(from_checkpoint) / kModels, models);
  }
  write_atomically((fs::path(to_checkpoint) / kListFile).string(), read_whole_file(list.string()));
}

void BestModels::resume(const std::string& checkpoint, std::string training) {
  const std::string file = (fs::path(checkpoint) / kListFile).string();
  if (!fs::exists(file)) {
    // Without the list the models would be taken for left overs, and removed.
    if (fs::exists(fs::path(checkpoint) / kModels)) {
      refuse(fmt::format("the checkpoint {} has lost its {}, the list of the best models; take a whole one", checkpoint,
                         kListFile));
    }
    training_ = std::move(training);
    models_.clear();
    resumed_from_.clear();
    settled_ = removed_unlisted_ = false;
    return;
  }
  std::vector<BestModel> models;
  try {
    const nlohmann::json json = read_versioned(file);
    const std::string there =
        fmt::format("{}, {} is better", json.at("metric").get<std::string>(), json.at("better").get<std::string>());
    const std::string here = fmt::format("{}, {} is better", options_.metric, to_string(*options_.better));
    if (there != here) refuse(fmt::format("the best models in {} are by {}, here by {}", checkpoint, there, here));
    for (const nlohmann::json& model : json.at("models")) {
      const auto step = model.at("step").get<int64_t>();
      models.push_back({.step = step,
                        .value = model.at("value").get<double>(),
                        .path = (fs::path(folder_) / name_of(step)).string()});
    }
  } catch (const nlohmann::json::exception& error) {
    refuse_json(error, file);
  }
  if (models.size() > static_cast<size_t>(options_.keep)) models.resize(static_cast<size_t>(options_.keep));
  for (const BestModel& model : models) entries_of(fs::path(checkpoint) / kModels / name_of(model.step));
  training_ = std::move(training);
  models_ = std::move(models);
  resumed_from_ = checkpoint;
  settled_ = removed_unlisted_ = false;
}

}  // namespace millrace
