#include "millrace/trainer/run/same_description.h"

#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/storage/folder_names.h"
#include "millrace/formats/storage/temporary_directory.h"
#include "millrace/formats/storage/whole_file.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json read(const fs::path& path) { return parse_json<json>(read_whole_file(path.string()), path.string()); }

bool is_same(const json& one, const json& other) {
  if (!one.is_object() || !other.is_object()) return one == other;
  for (const auto& [name, value] : one.items()) {
    if (other.contains(name) && other.at(name) != value) return false;
  }
  return true;
}

}  // namespace

void check_same_description(const std::string& checkpoint,
                            const std::function<void(const std::string& directory)>& save_description) {
  const TemporaryDirectory written;
  save_description(written.path());
  for (const std::string& name : names_in(written.path())) {
    const fs::path there = fs::path(checkpoint) / name;
    if (!name.ends_with(".json") || !fs::exists(there)) continue;
    if (is_same(read(there), read(fs::path(written.path()) / name))) continue;
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("checkpoint {} was written with another {} than this run has: go on with the data "
                                     "and options that it was trained with",
                                     checkpoint, name));
  }
}

}  // namespace millrace
