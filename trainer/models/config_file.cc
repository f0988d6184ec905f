#include "millrace/trainer/models/config_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/models/named_activation.h"

namespace millrace {

std::string model_file(const std::string& directory, const char* name) {
  return (std::filesystem::path(directory) / name).string();
}

ConfigFile::ConfigFile(const std::string& directory) : path_(model_file(directory, "config.json")) {
  std::ifstream stream(path_);
  if (!stream) {
    throw ErrorException({.code = ErrorCode::kIo,
                          .message = fmt::format("cannot open the file: {}", std::strerror(errno)),
                          .shard = path_});
  }
  try {
    json_ = nlohmann::json::parse(stream);
  } catch (const nlohmann::json::exception& error) {
    throw ErrorException({.code = ErrorCode::kParse, .message = error.what(), .shard = path_});
  }
  if (!json_.is_object()) {
    throw ErrorException({.code = ErrorCode::kParse, .message = "the file is not a JSON object", .shard = path_});
  }
}

void ConfigFile::need(const char* name, const nlohmann::json& expected, bool required) const {
  const auto found = json_.find(name);
  const bool missing = found == json_.end() || found->is_null();
  if (missing ? !required : *found == expected) return;
  refuse(fmt::format("{} is {}; only {} is known", name, missing ? "missing" : found->dump(), expected.dump()));
}

void ConfigFile::read_activation(const char* name, Activation& value) const {
  std::string text = name_of(value);
  read(name, text);
  try {
    value = activation_named(name, text);
  } catch (const ErrorException& error) {
    refuse(error.error().message);
  }
}

void ConfigFile::refuse(const std::string& message) const {
  throw ErrorException({.code = ErrorCode::kInvalidArgument, .message = message, .shard = path_});
}

void ConfigFile::refuse_type(const char* name, const std::string& why) const {
  throw ErrorException({.code = ErrorCode::kParse, .message = fmt::format("{}: {}", name, why), .shard = path_});
}

}  // namespace millrace
