#include "examples/mlm/shard_set_writer.h"

#include <cerrno>
#include <cstring>
#include <regex>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/atomic_directory.h"
#include "millrace/formats/storage/atomic_file.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(std::string_view what, const fs::path& path, const std::error_code& error) {
  throw ErrorException(
      {.code = ErrorCode::kIo, .message = fmt::format("{}: {}", what, error.message()), .shard = path.string()});
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) fail("cannot remove", path, error);
}

void move(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail("cannot put in place", to, error);
}

// A folder whose files would be replaced must hold nothing but shards.
void require_only_shards(const fs::path& folder) {
  static const std::regex kShardName(R"(dataset-[0-9]+-[0-9]+\.tfrecord(\.zst)?)");
  std::error_code error;
  const fs::file_status status = fs::symlink_status(folder, error);
  if (status.type() == fs::file_type::not_found) return;
  if (error) fail("cannot look at", folder, error);
  const auto refuse = [](const fs::path& path) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("'{}' is in the way and not a shard of an earlier run: choose another folder, or "
                                     "move it away",
                                     path.string()));
  };
  if (status.type() != fs::file_type::directory) refuse(folder);
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!std::regex_match(entry->path().filename().string(), kShardName)) refuse(entry->path());
  }
  if (error) fail("cannot look into", folder, error);
}

}  // namespace

ShardSetWriter::ShardSetWriter(const std::string& folder, int64_t records_per_shard, Compression compression)
    : folder_(folder),
      incomplete_(folder_ / ".incomplete-shards"),
      records_per_shard_(records_per_shard),
      compression_(compression) {
  if (records_per_shard < 1) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("records_per_shard is {}, must be at least 1", records_per_shard));
  }
  std::error_code ignored;
  made_folder_ = !fs::exists(folder_, ignored);
  make_folder(folder_.string());
  for (const Split split : kSplits) require_only_shards(folder_ / to_string(split));
  lock_.emplace(folder_.string(), "writing shards into");
  try {
    remove_tree(incomplete_);  // of a run that was killed
    for (const Split split : kSplits) make_folder((incomplete_ / to_string(split)).string());
  } catch (...) {
    clear_away();
    throw;
  }
}

ShardSetWriter::~ShardSetWriter() {
  for (SplitState& split : splits_) split.shard.reset();
  clear_away();
}

void ShardSetWriter::clear_away() noexcept {
  std::error_code ignored;
  fs::remove_all(incomplete_, ignored);
  if (made_folder_) fs::remove(folder_, ignored);  // if nothing is in it
  lock_.reset();
}

void ShardSetWriter::write(Split split, std::string_view record) {
  SplitState& state = at(split);
  if (!state.shard) {
    // The last one gets another name when its records are counted.
    const std::string name = shard_name(state.num_shards, records_per_shard_);
    state.shard.emplace((incomplete_ / to_string(split) / name).string(),
                        RecordWriterOptions{.compression = compression_});
  }
  state.shard->write(record);
  ++state.num_records;
  if (state.shard->num_records() == records_per_shard_) finish_shard(split);
}

std::string ShardSetWriter::shard_name(int64_t index, int64_t num_records) const {
  return fmt::format("dataset-{}-{}.tfrecord{}", index, num_records, compression_ == Compression::kZstd ? ".zst" : "");
}

void ShardSetWriter::finish_shard(Split split) {
  SplitState& state = at(split);
  if (!state.shard) return;
  const std::string name = shard_name(state.num_shards, state.shard->num_records());
  state.shard->set_path((incomplete_ / to_string(split) / name).string());
  state.shard->close();
  state.shard.reset();
  ++state.num_shards;
}

void ShardSetWriter::finish_shards() {
  for (const Split split : kSplits) finish_shard(split);
}

fs::path ShardSetWriter::counts_file(Split split) const {
  return fmt::format("split-{}-records-count.txt", to_string(split));
}

void ShardSetWriter::commit(const ShardStatistics& statistics) {
  const auto write_file = [&](const fs::path& name, std::string_view text) {
    write_atomically((incomplete_ / name).string(), text);
  };
  for (const Split split : kSplits) {
    write_file(counts_file(split), fmt::format("Total {} records: {}\n", to_string(split), num_records(split)));
  }
  write_file("statistics.json", to_json(statistics));

  const fs::path old = incomplete_ / "old";
  make_folder(old.string());
  // From here on nothing needs room on the disk. First what says that a set is whole goes, last it comes; and the whole
  // old set is away before the first part of the new one is in place.
  std::vector<fs::path> names = {"statistics.json"};
  for (const Split split : kSplits) names.push_back(counts_file(split));
  for (const Split split : kSplits) names.emplace_back(to_string(split));
  for (const fs::path& name : names) {
    if (fs::exists(fs::symlink_status(folder_ / name))) move(folder_ / name, old / name);
  }
  lock_->sync();
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    // The shards must have reached the disk before the file that says so.
    if (name->native() == "statistics.json") lock_->sync();
    move(incomplete_ / *name, folder_ / *name);
  }
  lock_->sync();
  made_folder_ = false;
}

}  // namespace millrace
