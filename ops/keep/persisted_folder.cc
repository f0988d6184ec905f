#include "millrace/ops/keep/persisted_folder.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/tfrecord/index/shard_fingerprint.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

constexpr std::string_view kNotReadToTheEnd = "not read to the end";

// Of what tells the files from other ones, in their order.
uint64_t digest_of_files(Storage& storage, const std::vector<std::string>& paths, const StorageWait& wait = {}) {
  if (paths.empty()) return 0;
  std::string text;
  for (const ShardFingerprint& file : read_shard_fingerprints(storage, paths, wait)) {
    text += fmt::format("{}: {} bytes, {:016x}, {:016x}\n", file.name, file.bytes, file.first, file.last);
  }
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace

PersistedFolder::PersistedFolder(std::string_view name, SchemaPtr schema, Cardinality cardinality)
    : name_(name), schema_(std::move(schema)), cardinality_(cardinality) {}

void PersistedFolder::set(std::string folder, uint64_t digest, Storage& storage, const StorageWait& wait) {
  folder_ = std::move(folder);
  digest_ = digest;
  (void)look(storage, true, wait);
}

int64_t PersistedFolder::memory_bytes() const { return index_ == nullptr ? 0 : index_->memory_bytes(); }

std::shared_ptr<const ElementsIndex> PersistedFolder::find(uint64_t path) {
  const std::lock_guard lock(mutex_);
  path_ = path;
  return index_ != nullptr && index_->about().path == path ? index_ : nullptr;
}

std::shared_ptr<ElementsOutput> PersistedFolder::begin_writing(const std::shared_ptr<PersistedFolder>& self,
                                                               Permit permit, const StageContext& context) {
  const std::lock_guard lock(self->mutex_);
  self->unkept_ = kNotReadToTheEnd;
  self->num_elements_ = 0;
  auto writer = std::make_unique<ElementsWriter>(
      std::move(permit.folder), self->schema_,
      ElementsIndex::About{
          .written_by = self->name_, .digest = self->digest_, .path = *self->path_, .generation = permit.generation});
  return std::make_shared<ElementsOutput>(
      context, std::move(writer),
      [self, storage = context.storage](ElementsWriter& written) { self->commit(written, *storage); });
}

void PersistedFolder::commit(ElementsWriter& written, Storage& storage) {
  try {
    std::vector<std::string> files = opened_->paths();
    const uint64_t digest = digest_of_files(storage, files);
    written.set_nested_files(std::move(files), digest);
    std::shared_ptr<const ElementsIndex> index = written.commit();
    const std::lock_guard lock(mutex_);
    index_ = std::move(index);
  } catch (...) {
    set_unkept(current_exception_as_error().to_string());
    throw;
  }
}

void PersistedFolder::set_unkept(std::string why) {
  const std::lock_guard lock(mutex_);
  unkept_ = std::move(why);
}

std::string PersistedFolder::unfinished() const {
  const std::lock_guard lock(mutex_);
  if (index_ != nullptr || unkept_.empty()) return {};
  try {
    const std::shared_ptr<const ElementsIndex> there = find_elements(folder_);
    if (there != nullptr && there->about().digest == digest_) return {};  // another one has written it
  } catch (const ErrorException&) {                                       // it is not whole
  }
  const std::string why =
      unkept_ == kNotReadToTheEnd
          ? fmt::format("{} of its elements came, and it is written when its input is read to the end",
                        num_elements_.load())
          : unkept_;
  return fmt::format("{} '{}' is not written: {}", name_, printable(folder_), why);
}

LocalDisk* PersistedFolder::disk_of_input(const LocalDisk& disk) {
  const std::lock_guard lock(mutex_);
  if (!disk_) {
    opened_.emplace(disk.opened);
    disk_.emplace(LocalDisk{disk.storage, disk.output, disk.ordered, &*opened_});
  }
  return &*disk_;
}

PersistedFolder::Permit PersistedFolder::look(Storage& storage, bool to_write, const StorageWait& wait) {
  // In a bucket to take the lock is to write, which whoever reads may not be allowed to.
  if (to_write && is_in_bucket(folder_)) {
    const std::shared_ptr<const ElementsIndex> whole = found();
    if (whole != nullptr && take(whole, storage, wait)) return {};
  }
  // Before it reads: whoever wrote may have come to the end just now.
  std::shared_ptr<ElementsFolder> folder = to_write ? ElementsFolder::try_lock(folder_) : nullptr;
  const std::shared_ptr<const ElementsIndex> there = found();
  const bool whole = there != nullptr && take(there, storage, wait);
  if (folder == nullptr) return {};
  folder->remove_others(there.get());
  if (whole) return {};
  const uint64_t generation = folder->next_generation();
  return {std::move(folder), generation};
}

std::shared_ptr<const ElementsIndex> PersistedFolder::found() const {
  try {
    return find_elements(folder_);
  } catch (const ErrorException& exception) {
    Error error = exception.error();
    if (error.code == ErrorCode::kParse) error.message += "; delete the folder to have it written anew";
    throw ErrorException(std::move(error));
  }
}

// Whether they are what is wanted.
bool PersistedFolder::take(const std::shared_ptr<const ElementsIndex>& index, Storage& storage,
                           const StorageWait& wait) {
  const ElementsIndex::About& about = index->about();
  if (about.written_by != name_) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("'{}' holds {} elements that {} wrote, not {}; choose another folder", folder_,
                                     index->num_elements(), about.written_by, name_));
  }
  if (about.digest != digest_ || !(*index->schema() == *schema_)) return false;
  if (cardinality_.is_known() && cardinality_.count() != index->num_elements()) return false;
  try {
    if (digest_of_files(storage, about.nested_files, wait) != about.nested_digest) return false;
  } catch (const ErrorException& exception) {
    if (exception.error().code == ErrorCode::kStalled) throw;
    return false;  // what is not there any more is told where somebody still needs it
  }
  const std::lock_guard lock(mutex_);
  if (path_ && about.path != *path_) return false;
  index_ = index;
  return true;
}

}  // namespace millrace
