#include "millrace/trainer/models/weight_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/storage/whole_file.h"
#include "millrace/trainer/models/config_file.h"

namespace millrace {
namespace {

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kPickle = "pytorch_model.bin";

[[noreturn]] void refuse(const std::string& path, const std::string& message) {
  throw ErrorException({.code = ErrorCode::kParse, .message = message, .shard = path});
}

bool is_file(const std::string& directory, const char* name) {
  return std::filesystem::exists(model_file(directory, name));
}

// The tensors of each part, by the part's name.
std::map<std::string, std::vector<std::string>> read_weight_map(const std::string& path) {
  const nlohmann::json index = parse_json(read_whole_file(path), path);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    refuse(path, "the file is not a JSON object with a weight_map");
  }
  std::map<std::string, std::vector<std::string>> parts;
  for (const auto& [tensor, part] : index["weight_map"].items()) {
    const std::string name = part.is_string() ? part.get<std::string>() : "";
    // A name, and not the way to a file elsewhere.
    if (name.empty() || name == ".." || name.find('/') != std::string::npos) {
      refuse(path, fmt::format("the weight_map names no file beside it for tensor '{}'", tensor));
    }
    parts[name].push_back(tensor);
  }
  if (parts.empty()) refuse(path, "the weight_map is empty");
  return parts;
}

}  // namespace

bool WeightFiles::are_in(const std::string& directory) {
  return is_file(directory, kWeights) || is_file(directory, kIndex);
}

WeightFiles::WeightFiles(const std::string& directory) {
  if (is_file(directory, kWeights)) {
    path_ = model_file(directory, kWeights);
    add(path_);
  } else if (is_file(directory, kIndex)) {
    path_ = model_file(directory, kIndex);
    add_parts(directory);
  } else {
    std::string message = fmt::format("there is neither {} nor {}", kWeights, kIndex);
    if (is_file(directory, kPickle)) {
      message += fmt::format("; {} is a pickle, which is not read: save_pretrained of transformers writes safetensors",
                             kPickle);
    }
    throw ErrorException({.code = ErrorCode::kIo, .message = message, .shard = directory});
  }
}

SafetensorsFile WeightFiles::add(const std::string& path) {
  SafetensorsFile file(path);
  tensors_.insert(tensors_.end(), file.tensors().begin(), file.tensors().end());
  for (const auto& [name, kept] : file.metadata()) {
    const StoredTensor* tensor = file.find(kept);
    if (tensor == nullptr || file.find(name) != nullptr) continue;
    tensors_.push_back(*tensor);
    tensors_.back().name = name;
  }
  return file;
}

void WeightFiles::add_parts(const std::string& directory) {
  for (const auto& [part, names] : read_weight_map(path_)) {
    const std::string path = model_file(directory, part.c_str());
    const SafetensorsFile file = add(path);
    for (const std::string& name : names) {
      if (file.find(name) == nullptr) {
        refuse(path, fmt::format("no tensor '{}', which {} says is here", name, kIndex));
      }
    }
  }
  std::set<std::string_view> seen;
  for (const StoredTensor& tensor : tensors_) {
    if (!seen.insert(tensor.name).second) refuse(path_, fmt::format("tensor '{}' is in two parts", tensor.name));
  }
}

const StoredTensor* WeightFiles::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors_, name, &StoredTensor::name);
  return found == tensors_.end() ? nullptr : &*found;
}

}  // namespace millrace
