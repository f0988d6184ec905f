#include "millrace/trainer/run/shard_set_writer.h"

#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/routed_storage.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

}  // namespace

ShardSetWriter::ShardSetWriter(const std::string& folder, ShardSetOptions options)
    : options_(std::move(options)), place_(ShardSetPlace::open(folder, options_)), splits_(options_.splits.size()) {}

std::string ShardSetWriter::shard_name(size_t split, int64_t num_records) const {
  const ShardSplit& options = options_.splits[split];
  const std::string name = options.file_name(splits_[split].num_shards, num_records);
  if (!is_shard_of(options_, name))
    refuse(fmt::format("'{}' is no name of a shard by '{}'", name, options_.shard_names));
  return options.folder.empty() ? name : options.folder + '/' + name;
}

void ShardSetWriter::start_shard(size_t split) {
  // It gets another name when its records are counted.
  splits_[split].shard.emplace(shard_path(shard_name(split, options_.splits[split].records_per_shard)),
                               RecordWriterOptions{.compression = options_.compression});
}

void ShardSetWriter::write(size_t split, std::string_view record) {
  SplitState& state = splits_.at(split);
  if (!state.shard && state.num_shards > 0 && options_.splits[split].records_per_shard == 0) {
    refuse("a record after the end of the one file of its split");
  }
  failed_ = true;  // until the record is in
  if (!state.shard) start_shard(split);
  state.shard->write(record);
  ++state.num_records;
  if (state.shard->num_records() == options_.splits[split].records_per_shard) finish_shard(split);
  failed_ = false;
}

void ShardSetWriter::finish_shard(size_t split) {
  SplitState& state = splits_[split];
  if (!state.shard) return;
  const std::string name = shard_name(split, state.shard->num_records());
  if (!names_.insert(name).second) refuse(fmt::format("two shards of a set have the name '{}'", name));
  state.shard->set_path(shard_path(name));
  state.shard->close();
  state.shard.reset();
  place_->add(name);
  ++state.num_shards;
}

void ShardSetWriter::add_elsewhere(const std::string& path, std::string_view text) {
  elsewhere_.push_back(open_output_anywhere(path));
  elsewhere_.back()->write(text);
}

void ShardSetWriter::finish_shards() {
  for (size_t split = 0; split < splits_.size(); ++split) {
    const SplitState& state = splits_[split];
    if (options_.splits[split].records_per_shard == 0 && state.num_shards == 0 && !state.shard) start_shard(split);
    finish_shard(split);
  }
}

void ShardSetWriter::commit(const std::vector<ShardSetFile>& files) {
  if (files.empty()) refuse("nothing says that a set of shards is whole");
  if (failed_) refuse("a set of shards that lacks a record cannot be put in place");
  finish_shards();
  for (const ShardSetFile& file : files) {
    check_name_in_set(file.name);
    if (is_shard_of(options_, file.name)) refuse(fmt::format("'{}' is a name of a shard", file.name));
  }
  place_->commit(files, elsewhere_);
}

}  // namespace millrace
