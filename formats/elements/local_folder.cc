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
#include "millrace/formats/storage/atomic_directory.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/file_lock.h"
#include "millrace/formats/storage/folder_names.h"
#include "millrace/formats/storage/growing_file.h"
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

uint64_t generation_of_elements(std::string_view name) {
  uint64_t generation = 0;
  name.remove_prefix(std::string_view("elements-").size());
  std::from_chars(name.data(), name.data() + name.size(), generation);
  return generation;
}

void refuse_elements_folder(const std::string& directory, const std::string& name) {
  throw ErrorException(
      ErrorCode::kInvalidArgument,
      fmt::format("'{}' holds '{}', which is no file of saved elements; choose another folder", directory, name));
}

std::shared_ptr<ElementsFolder> LocalElementsFolder::lock(const std::string& directory) {
  make_folder(directory);
  return std::make_shared<LocalElementsFolder>(directory,
                                               std::make_unique<FolderLock>(directory, "writing elements to"));
}

std::shared_ptr<ElementsFolder> LocalElementsFolder::try_lock(const std::string& directory) {
  make_folder(directory);
  std::unique_ptr<FolderLock> lock = FolderLock::try_lock(directory);
  return lock == nullptr ? nullptr : std::make_shared<LocalElementsFolder>(directory, std::move(lock));
}

uint64_t LocalElementsFolder::next_generation() {
  uint64_t last = 0;
  for_each_elements_file(directory(), [&](std::string_view name) {
    if (is_elements_file_name(name)) last = std::max(last, generation_of_elements(name));
  });
  return last + 1;
}

std::unique_ptr<OutputFile> LocalElementsFolder::create(const std::string& name) {
  return std::make_unique<GrowingFile>(path(name));
}

void LocalElementsFolder::remove(const std::string& name) noexcept {
  std::error_code ignored;  // the error that matters is on its way; the next writer removes what stays
  fs::remove(path(name), ignored);
}

void LocalElementsFolder::commit(const ElementsIndex& index) {
  // The names of the files before the name of what says that they are whole.
  lock_->sync();
  write_atomically(path(std::string(ElementsIndex::kFileName)), index.serialize());
}

std::shared_ptr<const ElementsIndex> LocalElementsFolder::in_use(std::shared_ptr<const ElementsIndex> index) {
  if (index->files().empty()) return index;
  std::unique_ptr<FileLock> lock = FileLock::share(locked_path(index->directory(), index->about().generation));
  return with_lock(std::move(index), std::move(lock));
}

void LocalElementsFolder::remove_others(const ElementsIndex* index) {
  std::vector<std::string> others;
  for_each_elements_file(directory(), [&](const std::string& name) {
    const bool named = index != nullptr && std::any_of(index->files().begin(), index->files().end(),
                                                       [&](const auto& file) { return file.name == name; });
    if (is_elements_file_name(name) || is_unfinished_description(name)) {
      if (!named) others.push_back(name);
    } else if (index == nullptr) {
      refuse_elements_folder(directory(), name);
    }
  });
  std::map<uint64_t, std::unique_ptr<FileLock>> locks;  // null: somebody reads that generation
  for (const std::string& name : others) {
    if (is_elements_file_name(name)) {
      const uint64_t generation = generation_of_elements(name);
      const auto [at, is_new] = locks.try_emplace(generation);
      if (is_new) at->second = lock_of_leftover(locked_path(directory(), generation));
      if (at->second == nullptr) continue;
    }
    std::error_code ignored;  // nobody waits for what cannot be removed: the next writer has other names
    fs::remove(path(name), ignored);
  }
}

std::string LocalElementsFolder::path(const std::string& name) const { return fmt::format("{}/{}", directory(), name); }

}  // namespace millrace
