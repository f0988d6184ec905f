#include "millrace/formats/storage/remote/cache_folder.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/file_lock.h"
#include "millrace/formats/storage/local.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

// In the folder; the number is that of its form.
constexpr const char* kMark = "millrace-cache-1";
constexpr std::chrono::hours kTemporaryLifetime{1};

struct Block {
  fs::path path;
  uint64_t bytes;
  fs::file_time_type used_at;
};

bool has_only(const std::string& name, size_t length, const char* digits) {
  return name.size() == length && name.find_first_not_of(digits) == std::string::npos;
}
bool is_hash(const fs::path& folder) { return has_only(folder.filename().string(), 32, "0123456789abcdef"); }
bool is_of_hashes(const fs::path& folder) { return has_only(folder.filename().string(), 2, "0123456789abcdef"); }
bool is_block(const fs::path& file) { return has_only(file.filename().string(), 8, "0123456789"); }

// What cannot be looked at, since another process removes it, is passed over.
template <typename Take>
void for_each_in(const fs::path& folder, Take take) {
  std::error_code code;
  for (fs::directory_iterator next(folder, code), end; !code && next != end; next.increment(code)) take(*next);
}

std::vector<Block> blocks_in(const fs::path& folder) {
  std::vector<Block> blocks;
  for_each_in(folder, [&](const fs::directory_entry& fan) {
    if (!is_of_hashes(fan.path())) return;
    for_each_in(fan.path(), [&](const fs::directory_entry& object) {
      if (!is_hash(object.path())) return;
      for_each_in(object.path(), [&](const fs::directory_entry& file) {
        if (!is_block(file.path())) return;
        std::error_code size_code;
        std::error_code time_code;
        Block block{
            .path = file.path(), .bytes = file.file_size(size_code), .used_at = file.last_write_time(time_code)};
        if (!size_code && !time_code) blocks.push_back(std::move(block));
      });
    });
  });
  return blocks;
}

bool is_temporary(const fs::path& file) { return file.filename().string().starts_with(kCacheTemporary); }

// Gives the bytes of those that somebody may be writing.
uint64_t remove_forgotten(const fs::path& folder, bool removes) {
  const auto now = fs::file_time_type::clock::now();
  uint64_t bytes = 0;
  for_each_in(folder, [&](const fs::directory_entry& file) {
    std::error_code code;
    if (!is_temporary(file.path())) return;
    if (removes && now - file.last_write_time(code) > kTemporaryLifetime && !code) {
      fs::remove(file.path(), code);
    } else if (const uint64_t size = file.file_size(code); !code) {
      bytes += size;
    }
  });
  return bytes;
}

// What can only be a cache's, also of one whose mark was removed, or is about to be made by another process.
bool has_only_ours(const fs::path& folder) {
  bool is_ours = true;
  for_each_in(folder, [&](const fs::directory_entry& entry) {
    is_ours = is_ours && (is_of_hashes(entry.path()) || is_temporary(entry.path()) || entry.path().filename() == kMark);
  });
  return is_ours;
}

uint64_t room_for(const fs::path& folder, uint64_t bytes) { return (bytes + fs::space(folder).available) / 10 * 9; }

}  // namespace

void prepare_cache_folder(const std::string& folder) {
  require_no_url(folder);
  try {
    if (fs::create_directories(folder)) fs::permissions(folder, fs::perms::owner_all);
    const fs::path mark = fs::path(folder) / kMark;
    if (fs::exists(mark)) return;
    if (!has_only_ours(folder)) {
      throw ErrorException({.code = ErrorCode::kInvalidArgument,
                            .message = "it has other things than a disk cache: give it a folder of its own there",
                            .shard = folder});
    }
    std::ofstream file(mark);
    file << "Blocks of objects that Millrace has read from object stores. All of it may be deleted.\n";
    file.close();
    if (!file) throw ErrorException({.code = ErrorCode::kIo, .message = "cannot write into it", .shard = folder});
  } catch (const fs::filesystem_error& error) {
    throw ErrorException(
        {.code = ErrorCode::kIo, .message = "it can be no disk cache: " + error.code().message(), .shard = folder});
  }
}

CacheSize evict_from_cache(const std::string& folder, uint64_t most, bool waits) try {
  if (waits) static_cast<void>(FileLock::share((fs::path(folder) / kMark).string()));
  const auto lock = FileLock::try_alone((fs::path(folder) / kMark).string());
  std::vector<Block> blocks = blocks_in(folder);
  CacheSize size;
  for (const Block& block : blocks) size.bytes += block.bytes;
  size.bytes += remove_forgotten(folder, lock != nullptr);
  size.most = most == 0 ? room_for(folder, size.bytes) : most;
  if (lock == nullptr || size.bytes <= size.most) return size;
  std::map<fs::path, size_t> blocks_of;
  for (const Block& block : blocks) ++blocks_of[block.path.parent_path()];
  std::ranges::sort(blocks, {}, &Block::used_at);
  for (const Block& block : blocks) {
    if (size.bytes <= size.most / 20 * 19) break;
    std::error_code code;
    if (fs::remove(block.path, code)) size.bytes -= block.bytes;
    // Of an object without blocks there is only what describes it.
    const fs::path object = block.path.parent_path();
    if (--blocks_of.at(object) > 0) continue;
    fs::remove(object / "object.json", code);
    fs::remove(object, code);
  }
  return size;
} catch (const fs::filesystem_error& error) {
  throw ErrorException({.code = ErrorCode::kIo, .message = error.code().message(), .shard = folder});
}

void note_use_of_blocks(const std::vector<std::string>& paths) noexcept {
  const auto now = fs::file_time_type::clock::now();
  for (const std::string& path : paths) {
    std::error_code code;  // it may be there no more
    fs::last_write_time(path, now, code);
  }
}

}  // namespace millrace
