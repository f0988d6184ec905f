#include "millrace/trainer/checkpoint/training_checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/safetensors/reader.h"
#include "millrace/formats/safetensors/writer.h"
#include "millrace/formats/storage/atomic_directory.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/whole_file.h"
#include "millrace/trainer/checkpoint/numbered_directory.h"
#include "millrace/trainer/checkpoint/parameter_file.h"
#include "millrace/trainer/checkpoint/training_id.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// 2: micro_batches, accumulate and evaluation_due. 3: gradients, loss_scale, callbacks and unreported losses and
// metrics beside the first loss. 4: replicas, and numbers that are not finite. 5: callbacks' states of any bytes, and
// model. What is written has the newest version; older ones are read, newer ones refused.
constexpr int kVersion = 5;
constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kModelFile = "model.safetensors";
constexpr std::string_view kOptimizerFile = "optimizer.safetensors";
constexpr std::string_view kTrainingFile = "training.json";
constexpr std::string_view kSourceFile = "source.state";

// JSON holds text in UTF-8 only; other bytes are written as `{"hex": "00ff"}`.
nlohmann::json bytes_to_json(const std::string& bytes) {
  try {
    (void)nlohmann::json(bytes).dump();
    return bytes;
  } catch (const nlohmann::json::type_error&) {
    std::string hex;
    for (const char byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    return {{"hex", hex}};
  }
}

std::string bytes_from_json(const nlohmann::json& json, const std::string& path) {
  if (json.is_string()) return json.get<std::string>();
  const auto hex = json.at("hex").get<std::string>();
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    unsigned char byte = 0;
    const char* end = hex.data() + std::min(i + 2, hex.size());
    if (std::from_chars(hex.data() + i, end, byte, 16).ptr != hex.data() + i + 2) {
      throw ErrorException({.code = ErrorCode::kParse,
                            .message = fmt::format("{} are no bytes in hexadecimal digits", shown_json(json.at("hex"))),
                            .shard = path});
    }
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::string text_of(const nlohmann::ordered_json& json) {
  try {
    return json.dump(1) + "\n";
  } catch (const nlohmann::json::type_error& error) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("a text of {} (batches, names, frozen) is no UTF-8: {}", kTrainingFile, error.what()));
  }
}

// How a slot's tensors are called: the parameter's name and this.
std::string slot_suffix(const Optimizer& optimizer, size_t slot) {
  return fmt::format(".{}", optimizer.slot_names()[slot]);
}

void read_all(const std::string& path, const ParameterLayout& layout, const std::vector<ParameterBuffer>& buffers,
              std::span<const uint8_t> included = {}) {
  read_parameters(SafetensorsFile(path), path, layout, buffers, {.included = included});
}

// JSON has no numbers that are not finite.
nlohmann::ordered_json number_to_json(double number) {
  if (std::isfinite(number)) return number;
  return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

double number_from_json(const nlohmann::json& json) {
  if (json.is_null()) return std::numeric_limits<double>::quiet_NaN();  // before version 4
  if (!json.is_string()) return json.get<double>();
  const auto text = json.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  return json.get<double>();  // says what it is
}

// A training that went on from more could count no further.
constexpr int64_t kMostCount = int64_t{1} << 62;

// The fields of training.json that are numbers, each checked by itself. What is wrong names field and value.
class Numbers {
 public:
  Numbers(const nlohmann::json& json, const std::string& path) : json_(json), path_(path) {}

  int64_t at_least(int64_t least, const char* name) const {
    const nlohmann::json& value = json_.at(name);
    const bool whole = value.is_number_integer();
    const bool fits =
        whole && (!value.is_number_unsigned() || value.get<uint64_t>() <= static_cast<uint64_t>(kMostCount));
    if (!fits || value.get<int64_t>() < least) {
      refuse(name, fmt::format("a whole number from {} to {}", least, kMostCount));
    }
    return value.get<int64_t>();
  }
  uint64_t seed(const char* name) const {
    if (!json_.at(name).is_number_unsigned()) refuse(name, "a whole number of 64 bits");
    return json_.at(name).get<uint64_t>();
  }
  // Gradients are divided by it.
  double scale(const char* name) const {
    const nlohmann::json& value = json_.at(name);
    const double scale = value.is_number() ? value.get<double>() : 0;
    if (!(scale >= std::numeric_limits<float>::min() && scale <= std::numeric_limits<float>::max())) {
      refuse(name, "a number above 0 that float32 holds");
    }
    return scale;
  }

 private:
  [[noreturn]] void refuse(const char* name, const std::string& expected) const {
    throw ErrorException({.code = ErrorCode::kParse,
                          .message = fmt::format("{} is {}; expected {}", name, shown_json(json_.at(name)), expected),
                          .shard = path_});
  }

  const nlohmann::json& json_;
  const std::string& path_;
};

// What training.json says.
struct Description {
  std::string path;
  TrainingProgress progress;
  std::string optimizer;
  std::string schedule;
  std::string batches;
  bool has_source_state = false;  // checkpoints of earlier versions do not say
};

Description read_description(const std::string& directory) {
  Description found;
  found.path = (fs::path(directory) / kTrainingFile).string();
  try {
    const nlohmann::json json = parse_json(read_whole_file(found.path), found.path);
    const Numbers numbers(json, found.path);
    const int64_t version = numbers.at_least(0, "version");
    if (version < 1 || version > kVersion) {
      throw ErrorException({.code = ErrorCode::kParse,
                            .message = fmt::format("version {}; 1 to {} are known", version, kVersion),
                            .shard = found.path});
    }
    found.progress = {.step = numbers.at_least(0, "step"),
                      .updates = numbers.at_least(0, "updates"),
                      .skipped_in_a_row = numbers.at_least(0, "skipped_in_a_row"),
                      .seed = numbers.seed("seed"),
                      .epoch = numbers.at_least(0, "epoch"),
                      .in_epoch = json.at("in_epoch").get<bool>(),
                      .unreported = {.sum_loss = number_from_json(json.at("unreported_sum_loss")),
                                     .weight = number_from_json(json.at("unreported_weight"))}};
    found.progress.micro_batches = found.progress.step;
    if (version >= 2) {
      found.progress.micro_batches = numbers.at_least(0, "micro_batches");
      found.progress.accumulate = numbers.at_least(1, "accumulate");
      found.progress.evaluation_due = json.at("evaluation_due").get<bool>();
    }
    if (version >= 3) {
      found.progress.gradients = json.at("gradients").get<std::string>();
      found.progress.loss_scale = {.scale = numbers.scale("loss_scale"),
                                   .good_steps = numbers.at_least(0, "good_steps")};
      for (const auto& [name, state] : json.at("callbacks").items()) {
        found.progress.callbacks[name] = bytes_from_json(state, found.path);
      }
      for (const auto& loss : json.at("unreported_more_losses")) {
        found.progress.unreported.more_losses.push_back(
            {.sum = number_from_json(loss.at(0)), .weight = number_from_json(loss.at(1))});
      }
      for (const auto& metric : json.at("unreported_metrics")) {
        found.progress.unreported.metrics.push_back(
            {.name = metric.at(0), .sum = number_from_json(metric.at(1)), .weight = number_from_json(metric.at(2))});
      }
    }
    if (version >= 4) found.progress.replicas = numbers.at_least(0, "replicas");
    if (version >= 5) found.progress.model = json.at("model").get<std::string>();
    found.optimizer = json.at("optimizer").get<std::string>();
    found.schedule = json.at("schedule").get<std::string>();
    found.batches = json.at("batches").get<std::string>();
    found.has_source_state = json.value("source_state", false);
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
                                   const TrainedState& state, const Optimizer& optimizer, const Schedule& schedule,
                                   const std::string& batches, const std::optional<PipelineState>& source) {
  make_folder(folder_);
  remove_unfinished_directories(folder_, kPrefix);
  std::string path = (fs::path(folder_) / numbered_name(kPrefix, progress.step)).string();
  AtomicDirectory directory(path);
  const fs::path temporary = directory.temporary_path();
  write_safetensors((temporary / kModelFile).string(), parameter_tensors(layout, state.weights.span()),
                    {{"format", "pt"}});
  std::vector<NamedTensor> slots;
  for (size_t slot = 0; slot < state.slots.size(); ++slot) {
    const std::vector<NamedTensor> more =
        parameter_tensors(layout, state.slots[slot].span(), slot_suffix(optimizer, slot), state.trainable);
    slots.insert(slots.end(), more.begin(), more.end());
  }
  write_safetensors((temporary / kOptimizerFile).string(), slots);
  nlohmann::ordered_json json = {{"version", kVersion},
                                 {"step", progress.step},
                                 {"micro_batches", progress.micro_batches},
                                 {"accumulate", progress.accumulate},
                                 {"replicas", progress.replicas},
                                 {"updates", progress.updates},
                                 {"skipped_in_a_row", progress.skipped_in_a_row},
                                 {"seed", progress.seed},
                                 {"epoch", progress.epoch},
                                 {"in_epoch", progress.in_epoch},
                                 {"evaluation_due", progress.evaluation_due},
                                 {"unreported_sum_loss", number_to_json(progress.unreported.sum_loss)},
                                 {"unreported_weight", number_to_json(progress.unreported.weight)},
                                 {"unreported_more_losses", nlohmann::json::array()},
                                 {"unreported_metrics", nlohmann::json::array()},
                                 {"model", progress.model},
                                 {"gradients", progress.gradients},
                                 {"loss_scale", progress.loss_scale.scale},
                                 {"good_steps", progress.loss_scale.good_steps},
                                 {"callbacks", nlohmann::json::object()},
                                 {"optimizer", optimizer.describe()},
                                 {"schedule", schedule.describe()},
                                 {"batches", batches},
                                 {"source_state", source.has_value()}};
  for (const auto& [name, bytes] : progress.callbacks) json["callbacks"][name] = bytes_to_json(bytes);
  for (const LossSum& loss : progress.unreported.more_losses) {
    json["unreported_more_losses"].push_back({number_to_json(loss.sum), number_to_json(loss.weight)});
  }
  for (const MetricSum& metric : progress.unreported.metrics) {
    json["unreported_metrics"].push_back({metric.name, number_to_json(metric.sum), number_to_json(metric.weight)});
  }
  write_atomically((temporary / kTrainingFile).string(), text_of(json));
  if (source) write_atomically((temporary / kSourceFile).string(), source->serialize());
  if (options_.more_files) options_.more_files(directory.temporary_path());
  directory.commit();
  remove_training_id(folder_);
  const std::vector<std::string> all = paths();
  const auto saved = std::find(all.begin(), all.end(), path) - all.begin();
  for (ptrdiff_t i = 0; i + options_.keep_last <= saved; ++i) remove_directory(all[static_cast<size_t>(i)]);
  return path;
}

std::vector<std::string> CheckpointFolder::paths() const { return checkpoints_in(folder_); }

void CheckpointFolder::check_folder(const std::string& training, bool resumed) const {
  if (options_.replace_others) return;
  const auto others = std::ranges::count_if(paths(), [&](const std::string& path) {
    const std::optional<std::string> id = read_training_id(path);
    return id ? *id != training : !resumed;
  });
  if (others == 0) return;
  throw ErrorException(ErrorCode::kInvalidArgument,
                       fmt::format("the folder for checkpoints {} holds {} of another training; go on from one of them "
                                   "with Trainer::resume, or remove or move them",
                                   folder_, others));
}

void CheckpointFolder::begin(const std::string& training) const {
  if (!paths().empty()) return;
  make_folder(folder_);
  if (read_training_id(folder_) != training) write_training_id(folder_, training);
}

std::vector<std::string> checkpoints_in(const std::string& folder) { return numbered_directories(folder, kPrefix); }

std::optional<std::string> newest_checkpoint(const std::string& folder) {
  std::vector<std::string> found = checkpoints_in(folder);
  if (found.empty()) return std::nullopt;
  return std::move(found.back());
}

TrainingProgress read_progress(const std::string& directory) { return read_description(directory).progress; }

std::optional<PipelineState> read_source_state(const std::string& directory) {
  const fs::path path = fs::path(directory) / kSourceFile;
  if (!fs::exists(path)) {
    if (!read_description(directory).has_source_state) return std::nullopt;
    throw ErrorException(ErrorCode::kState,
                         fmt::format("the checkpoint {} has lost its {}, the place in the data; take a whole one",
                                     directory, kSourceFile));
  }
  const std::string bytes = read_whole_file(path.string());
  try {
    return PipelineState::parse(bytes);
  } catch (const ErrorException& exception) {
    Error error = exception.error();
    error.shard = path.string();
    throw ErrorException(error);
  }
}

void need_same_as_checkpoint(const std::string& directory, std::string_view what, const std::string& there,
                             const std::string& here) {
  if (there == here) return;
  throw ErrorException(
      ErrorCode::kInvalidArgument,
      fmt::format("the checkpoint {} was made with {} {}, this run has {}", directory, what, there, here));
}

TrainingProgress load_checkpoint(const std::string& directory, const ParameterLayout& layout, TrainedState& state,
                                 const Optimizer& optimizer, const Schedule& schedule, const std::string& batches) {
  const Description there = read_description(directory);
  // Of other batches there are often other steps, and so another schedule: the cause is named.
  need_same_as_checkpoint(directory, "the batches", there.batches, batches);
  need_same_as_checkpoint(directory, "the optimizer", there.optimizer, optimizer.describe());
  need_same_as_checkpoint(directory, "the schedule", there.schedule, schedule.describe());

  TrainedState loaded(layout, optimizer);
  read_all((fs::path(directory) / kModelFile).string(), layout, {{.values = loaded.weights.span()}});
  std::vector<ParameterBuffer> slots;
  for (size_t slot = 0; slot < loaded.slots.size(); ++slot) {
    slots.push_back({.values = loaded.slots[slot].span(), .suffix = slot_suffix(optimizer, slot)});
  }
  read_all((fs::path(directory) / kOptimizerFile).string(), layout, slots, state.trainable);
  // Into the buffers that are there: a step graph points to them.
  std::copy(loaded.weights.span().begin(), loaded.weights.span().end(), state.weights.data());
  for (size_t slot = 0; slot < loaded.slots.size(); ++slot) {
    for (size_t id = 0; id < state.trainable.size(); ++id) {
      if (state.trainable[id] == 0) continue;  // never touched, so that it takes no memory
      const Parameter& parameter = layout.parameters()[id];
      std::copy_n(loaded.slots[slot].data() + parameter.offset, parameter.size,
                  state.slots[slot].data() + parameter.offset);
    }
  }
  return there.progress;
}

}  // namespace millrace
