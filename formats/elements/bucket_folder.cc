#include "millrace/formats/elements/bucket_folder.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "millrace/formats/elements/local_folder.h"
#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/folder_manifest.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/formats/storage/remote/routed_storage.h"

namespace millrace {
namespace {

// Generations of local folders, whose files somebody may be copying there, begin with 1.
constexpr uint64_t kLeastInBuckets = uint64_t{1} << 40;  // ms since 1970: in 2004

bool is_named(const ElementsIndex* index, const std::string& name) {
  return index != nullptr &&
         std::ranges::find(index->files(), name, &ElementsIndex::File::name) != index->files().end();
}

// Also where the store does not say when the lock was renewed.
bool may_be_written_to(RemoteStorage& storage, const std::string& directory) {
  const std::optional<ObjectNow> lock = storage.look(path_in(directory, FolderManifest::kLock));
  return lock && (!lock->age || *lock->age < ObjectLockOptions().breaks_after);
}

}  // namespace

std::shared_ptr<ElementsFolder> BucketElementsFolder::lock(const std::string& directory) {
  return std::make_shared<BucketElementsFolder>(directory);
}

std::shared_ptr<ElementsFolder> BucketElementsFolder::try_lock(const std::string& directory) {
  try {
    return lock(directory);
  } catch (const ErrorException& exception) {
    if (exception.error().code == ErrorCode::kInvalidArgument) return nullptr;
    throw;
  }
}

// Nobody is told while it waits: so it does not.
BucketElementsFolder::BucketElementsFolder(const std::string& directory)
    : ElementsFolder(directory),
      lock_(path_in(directory, FolderManifest::kLock), "writing elements to", {.waits = false}) {}

// Also of one whose lock was broken and whose files are in no listing yet.
uint64_t BucketElementsFolder::next_generation() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  auto last = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  for (const std::string& name : names()) {
    if (is_elements_file_name(name)) last = std::max(last, generation_of_elements(name));
  }
  return last + 1;
}

std::unique_ptr<OutputFile> BucketElementsFolder::create(const std::string& name) {
  return open_output_anywhere(url(name), {.if_absent = true});
}

void BucketElementsFolder::remove(const std::string& name) noexcept {
  if (may_be_committed_) return;
  try {
    lock_.require_held();  // else it may be another writer's
    RemoteStorage::of_process()->remove({url(name)});
  } catch (...) {  // the next writer removes it
  }
}

void BucketElementsFolder::commit(const ElementsIndex& index) {
  const std::string description = url(std::string(ElementsIndex::kFileName));
  // Before the lock is looked at: what whoever breaks it from then on has written is not replaced.
  constexpr size_t kMostBytes = 1 << 30;
  const std::optional<ObjectNow> replaced = RemoteStorage::of_process()->look(description, kMostBytes);
  lock_.require_held();
  const auto file = open_output_anywhere(
      description, {.if_absent = !replaced, .if_version = replaced ? replaced->version : std::string()});
  may_be_committed_ = true;
  try {
    file->write(index.serialize());
    file->commit();
  } catch (...) {
    may_be_committed_ = file->may_be_there();
    throw;
  }
}

void BucketElementsFolder::remove_others(const ElementsIndex* index) {
  try {
    std::vector<std::string> others;
    for (const std::string& name : names()) {
      if (is_elements_file_name(name)) {
        if (!is_named(index, name)) others.push_back(url(name));
      } else if (index == nullptr && is_like_elements_file_name(name)) {
        refuse_elements_folder(directory(), name);
      }
    }
    lock_.require_held();
    RemoteStorage::of_process()->remove(others);
  } catch (const ErrorException& exception) {
    // The elements that are there are whole; the next writer has other names.
    if (index == nullptr || exception.error().code != ErrorCode::kIo) throw;
  }
}

std::vector<std::string> BucketElementsFolder::names() const {
  std::vector<std::string> names;
  const std::string prefix = directory() + "/";
  for (const std::string& object : RemoteStorage::of_process()->list(prefix)) {
    names.push_back(object.substr(prefix.size()));
  }
  return names;
}

std::string BucketElementsFolder::url(const std::string& name) const { return path_in(directory(), name); }

FolderLeftovers elements_leftovers(const std::string& prefix, std::chrono::seconds older_than) {
  const std::shared_ptr<RemoteStorage> storage = RemoteStorage::of_process();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::map<std::string, std::vector<std::string>> folders;
  for (const std::string& url : storage->list(prefix)) {
    const size_t slash = url.rfind('/');
    std::string name = url.substr(slash + 1);
    if (!is_elements_file_name(name) || is_below_folder_id(url)) continue;
    const uint64_t generation = generation_of_elements(name);
    if (generation < kLeastInBuckets || now - std::chrono::milliseconds(generation) < older_than) continue;
    folders[url.substr(0, slash)].push_back(std::move(name));
  }
  FolderLeftovers leftovers;
  for (const auto& [directory, names] : folders) {
    if (may_be_written_to(*storage, directory)) continue;
    try {
      const std::shared_ptr<const ElementsIndex> index = find_elements(directory);
      for (const std::string& name : names) {
        if (!is_named(index.get(), name)) leftovers.objects.push_back(path_in(directory, name));
      }
    } catch (const ErrorException& exception) {
      if (exception.error().code == ErrorCode::kIo) throw;
      leftovers.unreadable.push_back(path_in(directory, ElementsIndex::kFileName));
    }
  }
  return leftovers;
}

}  // namespace millrace
