#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "tests/support/temporary_folder.h"

namespace millrace::testing_models {

/// What `test::files_below` finds but for the ids of trainings, which no two trainings have in common.
inline std::map<std::string, std::string> training_files(const std::string& folder) {
  std::map<std::string, std::string> files = test::files_below(folder);
  std::erase_if(files, [](const auto& file) { return std::filesystem::path(file.first).filename() == "training.id"; });
  return files;
}

/// The ids of the trainings whose checkpoints and models are in a folder; "none" for one without.
inline std::set<std::string> trainings_in(const std::string& folder) {
  const std::map<std::string, std::string> files = test::files_below(folder);
  std::set<std::string> ids;
  for (const auto& [name, content] : files) {
    const std::filesystem::path path = name;
    if (path.filename() != "model.safetensors") continue;
    const auto id = files.find((path.parent_path() / "training.id").string());
    ids.insert(id == files.end() ? "none" : id->second);
  }
  return ids;
}

}  // namespace millrace::testing_models
