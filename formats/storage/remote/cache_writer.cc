#include "millrace/formats/storage/remote/cache_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "millrace/formats/storage/remote/cache_folder.h"
#include "millrace/formats/tfrecord/crc.h"

namespace millrace {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what, int number) {
  Error error{.code = ErrorCode::kIo, .message = fmt::format("{}: {}", what, std::strerror(number)), .shard = path};
  if (number == ENOSPC || number == EDQUOT) throw NoRoomError(std::move(error));
  throw ErrorException(std::move(error));
}

void write_at(int descriptor, const std::string& path, uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail(path, "cannot write", count < 0 ? errno : EIO);
    bytes.remove_prefix(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
}

std::string read_at(int descriptor, const std::string& path, uint64_t offset, size_t size) {
  std::string bytes(size, '\0');
  size_t count = 0;
  while (count < size) {
    const ssize_t got = ::pread(descriptor, bytes.data() + count, size - count, static_cast<off_t>(offset + count));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail(path, "cannot read what was written", got < 0 ? errno : EIO);
    count += static_cast<size_t>(got);
  }
  return bytes;
}

// Whether all of a range is covered with a further one.
bool cover(std::map<uint64_t, uint64_t>& covered, uint64_t begin, uint64_t end, uint64_t length) {
  auto next = covered.upper_bound(begin);
  if (next != covered.begin() && std::prev(next)->second >= begin) --next;
  while (next != covered.end() && next->first <= end) {
    begin = std::min(begin, next->first);
    end = std::max(end, next->second);
    next = covered.erase(next);
  }
  covered.emplace(begin, end);
  return begin == 0 && end == length;
}

// The folder of an object, its description, and the mark of the cache, which somebody may have removed.
void make_folder(const std::string& cache, const CacheObject& object) {
  prepare_cache_folder(cache);
  const std::string above = object.folder.substr(0, object.folder.rfind('/'));
  for (const std::string& folder : {above, object.folder}) {
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) fail(folder, "cannot make it", errno);
  }
  std::ofstream(object.folder + "/object.json", std::ios::binary) << object.about;
}

}  // namespace

CacheWriter::~CacheWriter() {
  while (!unfinished_.empty()) remove(unfinished_.begin());
}

std::optional<uint64_t> CacheWriter::write(const CacheObject& object, uint64_t block, uint64_t offset,
                                           std::span<const std::byte> bytes) {
  try {
    const Place place = unfinished(object, block);
    Unfinished& file = place->second;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    write_at(file.descriptor, file.path, offset, text);
    const uint64_t length = object.length(block);
    const uint64_t end = offset + bytes.size();
    for (size_t piece = num_pieces(offset); piece < file.crcs.size(); ++piece) {
      const auto [from, to] = piece_range(piece, length);
      if (to > end) break;
      file.crcs[piece] = crc32c(text.substr(from - offset, to - from));
    }
    if (!cover(file.covered, offset, end, length)) return std::nullopt;
    return finish(object, block, place);
  } catch (...) {
    drop(object, block);
    throw;
  }
}

void CacheWriter::drop(const CacheObject& object, uint64_t block) {
  const auto found = unfinished_.find(object.path(block));
  if (found != unfinished_.end()) remove(found);
}

// The file that the bytes of a block go to.
CacheWriter::Place CacheWriter::unfinished(const CacheObject& object, uint64_t block) {
  const auto [place, is_new] = unfinished_.try_emplace(object.path(block));
  if (!is_new) return place;
  Unfinished& file = place->second;
  file.crcs.resize(num_pieces(object.length(block)));
  file.descriptor = ::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file.descriptor < 0 && errno == ENOENT) {  // somebody has removed the folder
    prepare_cache_folder(folder_);
    file.descriptor = ::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  }
  if (file.descriptor < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    file.path = fmt::format("{}/{}XXXXXX", folder_, kCacheTemporary);  // as mkostemp wants it
    file.descriptor = ::mkostemp(file.path.data(), O_CLOEXEC);
  }
  if (file.descriptor < 0) fail(folder_, "cannot make a file in it", errno);
  return place;
}

// Not brought to the disk: what is not there after a power cut is seen by its CRCs. Another process may have the block
// meanwhile: it is the same.
uint64_t CacheWriter::finish(const CacheObject& object, uint64_t block, Place place) {
  Unfinished& file = place->second;
  const uint64_t length = object.length(block);
  std::vector<uint32_t> crcs;
  for (size_t piece = 0; piece < file.crcs.size(); ++piece) {
    const std::optional<uint32_t>& known = file.crcs[piece];
    const auto [from, to] = piece_range(piece, length);
    crcs.push_back(known ? *known : crc32c(read_at(file.descriptor, file.path, from, to - from)));
  }
  write_at(file.descriptor, file.path, length, object.trailer(block, crcs));
  if (file.path.empty()) give_name(file);
  const std::string name = object.path(block);
  int error = ::rename(file.path.c_str(), name.c_str()) == 0 ? 0 : errno;
  if (error == ENOENT) {
    make_folder(folder_, object);
    error = ::rename(file.path.c_str(), name.c_str()) == 0 ? 0 : errno;
  }
  if (error != 0 && error != ENOENT) fail(name, "cannot rename what was written", error);
  if (error == 0) file.path.clear();
  remove(place);
  return error == 0 ? object.file_size(block) : 0;
}

// So that it can be renamed: a link takes no place of another file.
void CacheWriter::give_name(Unfinished& file) const {
  const std::string from = fmt::format("/proc/self/fd/{}", file.descriptor);
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::string path =
        fmt::format("{}/{}{}-{:08x}", folder_, kCacheTemporary, ::getpid(), std::random_device()());
    if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      file.path = path;
      return;
    }
    if (errno == ENOENT) {
      prepare_cache_folder(folder_);
    } else if (errno != EEXIST) {
      break;
    }
  }
  fail(folder_, "cannot name a file in it", errno);
}

void CacheWriter::remove(Place place) {
  if (place->second.descriptor >= 0) ::close(place->second.descriptor);
  if (!place->second.path.empty()) ::unlink(place->second.path.c_str());
  unfinished_.erase(place);
}

}  // namespace millrace
