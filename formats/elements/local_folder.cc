#include "millrace/formats/elements/local_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/file_lock.h"
#include "millrace/formats/storage/folder_names.h"
#include "millrace/formats/storage/local.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// A description that a killed process did not come to give its name.
bool is_unfinished_description(std::string_view name) { return written_name(name) == ElementsIndex::kFileName; }

template <typename Function>
void for_each_elements_file(const std::string& directory, Function&& function) {
  for (const std::string& name : names_in(directory)) {
    if (is_like_elements_file_name(name) || is_unfinished_description(name)) function(name);
  }
}

// Of the name of a file of elements.
uint64_t generation_of(std::string_view name) {
  uint64_t generation = 0;
  name.remove_prefix(std::string_view("elements-").size());
  std::from_chars(name.data(), name.data() + name.size(), generation);
  return generation;
}

// The first file stands for all of a generation.
std::string locked_path(const std::string& directory, uint64_t generation) {
  return fmt::format("{}/{}", directory, elements_file_name(generation, 0));
}

// Null also for a file that may not be opened.
std::unique_ptr<FileLock> lock_of_leftover(const std::string& path) {
  try {
    return FileLock::try_alone(path);
  } catch (const ErrorException&) {
    return nullptr;
  }
}

struct IndexInUse {
  std::shared_ptr<const ElementsIndex> index;
  std::unique_ptr<FileLock> lock;
};

std::shared_ptr<const ElementsIndex> with_lock(std::shared_ptr<const ElementsIndex> index,
                                               std::unique_ptr<FileLock> lock) {
  const ElementsIndex* const part = index.get();
  IndexInUse used{.index = std::move(index), .lock = std::move(lock)};
  return {std::make_shared<const IndexInUse>(std::move(used)), part};
}

}  // namespace

std::shared_ptr<const ElementsIndex> find_local_elements(const std::string& directory) {
  InlineExecutor executor;
  LocalStorage disk(executor);
  std::shared_ptr<const ElementsIndex> before;
  while (true) {
    std::shared_ptr<const ElementsIndex> index = ElementsIndex::find(disk, directory);
    if (index == nullptr || index->files().empty()) return index;
    std::unique_ptr<FileLock> lock = FileLock::share(locked_path(directory, index->about().generation));
    if (lock != nullptr) return with_lock(index, std::move(lock));
    // Replaced between the two calls; or lost, when the description still says the same: then reading tells.
    if (before != nullptr && before->about().generation == index->about().generation) return index;
    before = index;
  }
}

std::shared_ptr<const ElementsIndex> in_use(std::shared_ptr<const ElementsIndex> index) {
  if (index->files().empty()) return index;
  std::unique_ptr<FileLock> lock = FileLock::share(locked_path(index->directory(), index->about().generation));
  return with_lock(std::move(index), std::move(lock));
}

uint64_t next_generation(const std::string& directory) {
  uint64_t last = 0;
  for_each_elements_file(directory, [&](std::string_view name) {
    if (is_elements_file_name(name)) last = std::max(last, generation_of(name));
  });
  return last + 1;
}

void remove_other_elements(const std::string& directory, const ElementsIndex* index) {
  std::vector<std::string> others;
  for_each_elements_file(directory, [&](const std::string& name) {
    const bool named = index != nullptr && std::any_of(index->files().begin(), index->files().end(),
                                                       [&](const auto& file) { return file.name == name; });
    if (is_elements_file_name(name) || is_unfinished_description(name)) {
      if (!named) others.push_back(name);
    } else if (index == nullptr) {
      throw ErrorException(
          ErrorCode::kInvalidArgument,
          fmt::format("'{}' holds '{}', which is no file of saved elements; choose another folder", directory, name));
    }
  });
  std::map<uint64_t, std::unique_ptr<FileLock>> locks;  // null: somebody reads that generation
  for (const std::string& name : others) {
    if (is_elements_file_name(name)) {
      const uint64_t generation = generation_of(name);
      const auto [at, is_new] = locks.try_emplace(generation);
      if (is_new) at->second = lock_of_leftover(locked_path(directory, generation));
      if (at->second == nullptr) continue;
    }
    std::error_code ignored;  // nobody waits for what cannot be removed: the next writer has other names
    fs::remove(fs::path(directory) / name, ignored);
  }
}

}  // namespace millrace
