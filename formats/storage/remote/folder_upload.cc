#include "millrace/formats/storage/remote/folder_upload.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/object_folder.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/formats/storage/remote/whole_object.h"
#include "millrace/formats/tfrecord/crc.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

constexpr size_t kPiece = 1 << 20;
constexpr size_t kPart = 8 << 20;
constexpr size_t kMostParts = 5'000;   // of a file
constexpr uint64_t kLarge = 64 << 20;  // bytes of a file that is sent by more connections

// Parts of one size, so many that the store takes them.
OutputOptions parts_of(uint64_t size) {
  size_t part = kPart;
  if (size / kMostParts > part) part = (size / kMostParts / kPart + 1) * kPart;
  return {.part_bytes = part, .in_flight = size > kLarge ? 6 : 2};
}

// Gives all pieces of a local file to `take`, and its size and CRC.
template <typename Take>
FolderFile read_through(const std::string& path, FolderFile file, Take take) {
  std::ifstream in(path, std::ios::binary);
  std::string piece(kPiece, '\0');
  file.size = 0;
  file.crc = 0;
  while (in) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    const std::string_view bytes(piece.data(), static_cast<size_t>(in.gcount()));
    file.size += bytes.size();
    file.crc = crc32c(bytes, file.crc);
    take(bytes);
  }
  if (!in.eof()) throw ErrorException({.code = ErrorCode::kIo, .message = "cannot read it", .shard = path});
  return file;
}

struct Committed {
  FolderManifest manifest = {};
  OutputOptions in_its_place = {.if_absent = true};
};

// The manifest as it is now. An object COMMIT of somebody else's is an error: nobody knows what would be lost.
Committed committed(const std::string& folder) {
  const std::string url = path_in(folder, FolderManifest::kObject);
  const std::optional<ObjectNow> now = RemoteStorage::of_process()->look(url, FolderManifest::kMostBytes);
  if (!now) return {};
  std::optional<FolderManifest> manifest = parse_folder_manifest(now->bytes);
  if (!manifest) {
    throw ErrorException(
        {.code = ErrorCode::kIo, .message = "it is in the way: no manifest of a folder", .shard = url});
  }
  return {.manifest = *std::move(manifest), .in_its_place = {.if_version = now->version}};
}

}  // namespace

FolderUpload::FolderUpload(std::string folder, FolderUploadOptions options)
    : folder_(without_slash(std::move(folder))), options_(std::move(options)) {
  if (!is_folder_in_bucket(folder_)) {
    throw ErrorException({.code = ErrorCode::kInvalidArgument,
                          .message = "it is no folder of a bucket, s3://BUCKET/FOLDER or gs://BUCKET/FOLDER",
                          .shard = folder_});
  }
  if (options_.reuses) earlier_ = committed(folder_).manifest;
  manifest_.id = make_folder_id();
  if (options_.in_flight < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("in_flight is {}, less than 1", options_.in_flight));
  }
}

FolderUpload::~FolderUpload() {
  end_threads();
  if (committed_) return;
  try {
    const std::shared_ptr<RemoteStorage> storage = RemoteStorage::of_process();
    storage->remove(storage->list(fmt::format("{}/{}/", folder_, manifest_.id)));
  } catch (...) {  // it stays, as that of a writer that was killed
  }
}

void FolderUpload::add(std::string name, std::string path, std::function<void()> sent) {
  start({.file = {.name = std::move(name)}, .path = std::move(path), .sent = std::move(sent)});
}

void FolderUpload::put(std::string name, std::string bytes) {
  start({.file = {.name = std::move(name)}, .bytes = std::move(bytes)});
}

void FolderUpload::keep(const FolderFile& file) {
  const std::lock_guard lock(mutex_);
  manifest_.files.push_back(file);
}

void FolderUpload::start(Work work) {
  if (!is_valid_utf8(work.file.name)) {
    throw ErrorException({.code = ErrorCode::kInvalidArgument,
                          .message = fmt::format("'{}' is no name of a file of a folder in a bucket: it is no UTF-8",
                                                 printable(work.file.name)),
                          .shard = folder_});
  }
  if (options_.checksums != nullptr && !work.bytes) work.stamp = stamp_of(work.path);
  if (work.stamp && !work.stamp->has_settled()) work.stamp.reset();
  if (work.stamp && !work.sent) {  // else the file may go, and another one be in its place
    const auto [first, is_first] = first_names_.try_emplace(*work.stamp, work.file.name);
    if (!is_first) {
      links_.emplace_back(std::move(work.file.name), first->second);
      return;
    }
  }
  work.file.object = path_in(manifest_.id, work.file.name);
  const uint64_t size = work.bytes ? work.bytes->size() : known_size(work.path).value_or(0);
  work.parts = parts_of(size);
  work.bytes_in_flight = std::min(size, uint64_t{work.parts.part_bytes} * (work.parts.in_flight + 1));
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return error_ != nullptr || num_at_work_ == 0 ||
           (num_at_work_ < options_.in_flight && bytes_in_flight_ + work.bytes_in_flight <= options_.bytes_in_flight);
  });
  if (error_ != nullptr) std::rethrow_exception(error_);
  if (std::ssize(threads_) <= num_at_work_) threads_.emplace_back([this] { run(); });
  ++num_at_work_;
  bytes_in_flight_ += work.bytes_in_flight;
  waiting_.push_back(std::move(work));
  changed_.notify_all();
}

void FolderUpload::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
    if (ends_) return;
    Work work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    std::exception_ptr error;
    try {
      if (!options_.reuses || !reuse(work)) send(work);
      if (work.sent) work.sent();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --num_at_work_;
    bytes_in_flight_ -= work.bytes_in_flight;
    if (error == nullptr && work.stamp && work.stamp->size == work.file.size) {
      checksums_[*work.stamp] = work.file.crc;
    }
    if (error == nullptr) manifest_.files.push_back(std::move(work.file));
    if (error != nullptr && error_ == nullptr) error_ = error;
    changed_.notify_all();
  }
}

void FolderUpload::send(Work& work) {
  const std::unique_ptr<OutputFile> file = open_output_anywhere(url_of(work.file), work.parts);
  const auto write = [&](std::string_view bytes) {
    {
      const std::lock_guard lock(mutex_);
      if (ends_) throw ErrorException({.code = ErrorCode::kIo, .message = "it was given up", .shard = folder_});
      bytes_sent_ += bytes.size();
    }
    file->write(bytes);
  };
  if (work.bytes) {
    work.file.size = work.bytes->size();
    work.file.crc = crc32c(*work.bytes);
    write(*work.bytes);
  } else {
    work.file = read_through(work.path, std::move(work.file), write);
  }
  file->commit();
}

// Whether an object that is there is the file.
bool FolderUpload::reuse(Work& work) const {
  const FolderFile* const known = earlier_.find(work.file.name);
  if (known == nullptr) return false;
  FolderFile file = work.file;
  if (work.bytes) {
    file.size = work.bytes->size();
    file.crc = crc32c(*work.bytes);
  } else {
    if (known_size(work.path) != known->size) return false;
    if (const uint32_t* const crc = known_crc(work); crc != nullptr) {
      file.size = work.stamp->size;
      file.crc = *crc;
    } else {
      file = read_through(work.path, std::move(file), [](std::string_view) {});
    }
  }
  if (file.size != known->size || file.crc != known->crc) return false;
  work.file = *known;
  return true;
}

const uint32_t* FolderUpload::known_crc(const Work& work) const {
  if (!work.stamp) return nullptr;
  const auto found = options_.checksums->find(*work.stamp);
  return found == options_.checksums->end() ? nullptr : &found->second;
}

void FolderUpload::wait_for_all() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return error_ != nullptr || num_at_work_ == 0; });
  if (error_ != nullptr) std::rethrow_exception(error_);
}

void FolderUpload::commit() {
  wait_for_all();
  end_threads();
  name_links();
  const auto twice = std::ranges::adjacent_find(manifest_.files, {}, &FolderFile::name);
  if (twice != manifest_.files.end()) {
    throw ErrorException({.code = ErrorCode::kInvalidArgument,
                          .message = fmt::format("two files of a folder have the name '{}'", twice->name),
                          .shard = folder_});
  }
  const std::string text = manifest_.to_text();
  if (text.size() > options_.most_manifest_bytes) {
    throw ErrorException({.code = ErrorCode::kInvalidArgument,
                          .message = fmt::format("{} files are too many for one folder of a bucket: its {} would have "
                                                 "{} bytes, and at most {} are read",
                                                 manifest_.files.size(), FolderManifest::kObject, text.size(),
                                                 options_.most_manifest_bytes),
                          .shard = folder_});
  }
  const auto [replaced, in_its_place] = committed(folder_);
  if (options_.reuses && replaced.id != earlier_.id) {
    throw ErrorException({.code = ErrorCode::kIo,
                          .message = fmt::format("another writer has exchanged it meanwhile: it was {}, is {}",
                                                 earlier_.id.empty() ? "nothing" : earlier_.id,
                                                 replaced.id.empty() ? "nothing" : replaced.id),
                          .shard = folder_});
  }
  const auto file = open_output_anywhere(path_in(folder_, FolderManifest::kObject), in_its_place);
  committed_ = true;
  try {
    file->write(text);
    file->commit();
  } catch (...) {
    committed_ = file->may_be_there();  // then what was sent must stay
    throw;
  }
  if (options_.checksums != nullptr) *options_.checksums = std::move(checksums_);
  forget_whole_objects(folder_ + '/');
  remove_replaced(replaced);
}

// All files are there. In the order of their names from here on.
void FolderUpload::name_links() {
  std::vector<FolderFile>& files = manifest_.files;
  std::ranges::sort(files, {}, &FolderFile::name);
  std::vector<FolderFile> links;
  links.reserve(links_.size());
  for (const auto& [name, first] : links_) {
    links.push_back(*manifest_.find(first));
    links.back().name = name;
  }
  files.insert(files.end(), links.begin(), links.end());
  std::ranges::sort(files, {}, &FolderFile::name);
}

// As far as the store does it: the folder is exchanged.
void FolderUpload::remove_replaced(const FolderManifest& replaced) const noexcept {
  try {
    std::set<std::string_view> known;  // that are kept, and those of `gone`
    for (const FolderFile& file : manifest_.files) known.insert(file.object);
    std::vector<std::string> gone;
    for (const FolderFile& file : replaced.files) {
      if (!known.insert(file.object).second) continue;
      gone.push_back(url_of(file));
      // What dataset_index may have written beside it.
      if (file.name.find(".tfrec") != std::string::npos) gone.push_back(url_of(file) + ".index");
    }
    RemoteStorage::of_process()->remove(gone);
  } catch (...) {  // they are leftovers
  }
}

uint64_t FolderUpload::bytes_sent() const {
  const std::lock_guard lock(mutex_);
  return bytes_sent_;
}

void FolderUpload::end_threads() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::string FolderUpload::url_of(const FolderFile& file) const { return path_in(folder_, file.object); }

}  // namespace millrace
