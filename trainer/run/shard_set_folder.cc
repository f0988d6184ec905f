#include "millrace/trainer/run/shard_set_folder.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/atomic_directory.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/folder_names.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(std::string_view what, const fs::path& path, const std::error_code& error) {
  throw ErrorException(
      {.code = ErrorCode::kIo, .message = fmt::format("{}: {}", what, error.message()), .shard = path.string()});
}

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail("cannot remove", path, error);
}

bool is_there(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::symlink_status(path, error).type();
  if (type == fs::file_type::none) fail("cannot look at", path, error);
  return type != fs::file_type::not_found;
}

/// Renames, one after the other, that are undone unless all were made.
class Moves {
 public:
  ~Moves() {
    std::error_code ignored;
    for (; !made_.empty(); made_.pop_back()) fs::rename(made_.back().second, made_.back().first, ignored);
  }
  void move(const fs::path& from, const fs::path& to, std::string_view what) {
    made_.emplace_back(from, to);  // before it is moved: afterwards nothing throws
    std::error_code error;
    fs::rename(from, to, error);
    if (!error) return;
    made_.pop_back();
    fail(what, from, error);
  }
  void keep() { made_.clear(); }

 private:
  std::vector<std::pair<fs::path, fs::path>> made_;
};

}  // namespace

ShardSetFolder::ShardSetFolder(const std::string& folder, const ShardSetOptions& options)
    : folder_(folder), incomplete_(folder_ / kIncomplete), options_(options) {
  std::error_code ignored;
  made_folder_ = !fs::exists(folder_, ignored);
  make_folder(folder_.string());
  require_only_shards();
  lock_.emplace(folder_.string(), "writing shards into");
  try {
    remove_tree(incomplete_);  // of a run that was killed
    for (const ShardSplit& split : options_.splits) make_folder((incomplete_ / split.folder).string());
  } catch (...) {
    clear_away();
    throw;
  }
}

ShardSetFolder::~ShardSetFolder() { clear_away(); }

void ShardSetFolder::clear_away() noexcept {
  std::error_code ignored;
  // What could not be put back stays.
  if (fs::is_empty(incomplete_ / kOld, ignored) || ignored) fs::remove_all(incomplete_, ignored);
  if (made_folder_) fs::remove(folder_, ignored);  // if nothing is in it
  lock_.reset();
}

void ShardSetFolder::require_only_shards() const {
  for (const ShardSplit& split : options_.splits) {
    if (!split.folder.empty()) require_only_shards(folder_ / split.folder);
  }
}

// A folder whose files would be replaced must hold nothing but shards.
void ShardSetFolder::require_only_shards(const fs::path& folder) const {
  if (!is_there(folder)) return;
  std::error_code error;
  const fs::file_status status = fs::symlink_status(folder, error);
  const auto in_the_way = [](const fs::path& path) {
    refuse(fmt::format("'{}' is in the way and not a shard of an earlier run: choose another folder, or move it away",
                       path.string()));
  };
  if (status.type() != fs::file_type::directory) in_the_way(folder);
  for (const std::string& name : names_in(folder.string(), error)) {
    if (!is_shard_of(options_, name)) in_the_way(folder / name);
  }
  if (error) fail("cannot look into", folder, error);
}

// The set's folders and the shards that lie beside them, as they are below `folder`; in the order of their names.
std::vector<fs::path> ShardSetFolder::entries_in(const fs::path& folder) const {
  std::vector<fs::path> entries;
  bool has_shards = false;
  for (const ShardSplit& split : options_.splits) {
    has_shards = has_shards || split.folder.empty();
    if (!split.folder.empty() && is_there(folder / split.folder)) entries.emplace_back(split.folder);
  }
  std::error_code error;
  if (has_shards) {
    for (const std::string& name : names_in(folder.string(), error)) {
      std::error_code gone;  // since the folder was read
      if (!is_shard_of(options_, name) || fs::symlink_status(folder / name, gone).type() != fs::file_type::regular)
        continue;
      entries.emplace_back(name);
    }
  }
  if (error) fail("cannot look into", folder, error);
  std::ranges::sort(entries);
  entries.erase(std::unique(entries.begin(), entries.end()), entries.end());  // splits may share a folder
  return entries;
}

void ShardSetFolder::commit(const std::vector<ShardSetFile>& files,
                            const std::vector<std::unique_ptr<OutputFile>>& elsewhere) {
  for (const ShardSetFile& file : files) write_atomically((incomplete_ / file.name).string(), file.text);
  const fs::path old = incomplete_ / kOld;
  make_folder(old.string());
  require_only_shards();  // others may have come since
  Moves moves;
  const auto put_away = [&](const fs::path& name) {
    if (is_there(folder_ / name)) moves.move(folder_ / name, old / name, "cannot put away");
  };
  const auto put_in_place = [&](const fs::path& name) {
    moves.move(incomplete_ / name, folder_ / name, "cannot put in place");
  };

  // From here on only files elsewhere may need room, or a network. First what says that a set is whole goes, last it
  // comes; and the whole old set is away before the first part of the new one is in place.
  for (const ShardSetFile& file : files) put_away(file.name);
  std::ranges::for_each(options_.optional_files, put_away);
  std::ranges::for_each(entries_in(folder_), put_away);
  lock_->sync();
  std::ranges::for_each(entries_in(incomplete_), put_in_place);
  for (size_t i = files.size() - 1; i > 0; --i) put_in_place(files[i].name);
  for (const auto& file : elsewhere) {
    try {
      file->commit();
    } catch (...) {
      if (file->may_be_there()) moves.keep();
      throw;
    }
    moves.keep();  // the old set would be whole beside another one's file
  }
  lock_->sync();  // the shards must have reached the disk before the file that says so
  put_in_place(files[0].name);
  lock_->sync();
  moves.keep();
  remove_tree(old);
  made_folder_ = false;
}

}  // namespace millrace
