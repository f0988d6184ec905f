#include "millrace/ops/sources/files.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "millrace/formats/records/whole_file_splitter.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

// Small files are waited for more than read.
constexpr size_t kFilesAtATime = 16;

[[noreturn]] void refuse(const std::string& why) { throw ErrorException(ErrorCode::kInvalidArgument, "files: " + why); }

// The name of the folder that a file lies in; empty where its path has none.
std::string_view folder_of(std::string_view path) {
  const size_t end = path.rfind('/');
  if (end == std::string_view::npos) return {};
  path = path.substr(0, end);
  return path.substr(path.rfind('/') + 1);
}

SchemaPtr schema_of(const FilesOptions& options) {
  std::vector<FeatureSpec> features{{.name = "bytes", .dtype = DType::kBytes},
                                    {.name = "path", .dtype = DType::kBytes}};
  if (options.label_from_folder) features.push_back({.name = "label", .dtype = DType::kInt64});
  return std::make_shared<const Schema>(std::move(features));
}

// Of each file.
std::vector<int64_t> labels_of(const Shards& files, const FilesOptions& options) {
  if (!options.label_from_folder) {
    if (!options.class_names.empty()) refuse("class_names goes with label_from_folder");
    return {};
  }
  const std::vector<std::string> names = options.class_names.empty() ? folder_names(files) : options.class_names;
  std::map<std::string_view, int64_t> label_of;
  for (const std::string& name : names) {
    if (!label_of.emplace(name, std::ssize(label_of)).second)
      refuse(fmt::format("class_names has '{}' twice", printable(name)));
  }
  std::vector<int64_t> labels;
  for (const Shard& file : files.list()) {
    const std::string_view folder = folder_of(file.path);
    const auto label = label_of.find(folder);
    if (label == label_of.end())
      refuse(fmt::format("a file lies in the folder '{}', which class_names lacks", printable(folder)));
    labels.push_back(label->second);
  }
  return labels;
}

FileReadOptions reading(const FilesOptions& options) {
  return {.cycle_length = kFilesAtATime,
          .shuffle_shards = options.shuffle_files,
          .seed = options.seed,
          .max_record_bytes = options.max_file_bytes,
          .damage = options.damage};
}

}  // namespace

std::vector<std::string> folder_names(const Shards& files) {
  std::vector<std::string> names;
  for (const Shard& file : files.list()) names.emplace_back(folder_of(file.path));
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

FilesOperator::FilesOperator(const Shards& files, const FilesOptions& options)
    : FileSourceOperator("files", schema_of(options), files, reading(options)), labels_(labels_of(files, options)) {}

OperatorTraits FilesOperator::traits() const {
  OperatorTraits traits = traits_of_built_in();
  traits.forwards_row_views = false;  // a path is a view of its own
  return traits;
}

Cardinality FilesOperator::cardinality(std::span<const Cardinality>) const {
  return skips_damage() ? Cardinality::unknown() : Cardinality::known(static_cast<int64_t>(shards()->size()));
}

std::unique_ptr<RecordSplitter> FilesOperator::splitter(uint64_t max_record_bytes) const {
  return std::make_unique<WholeFileSplitter>(max_record_bytes);
}

Block::Columns FilesOperator::more_columns(size_t file, const CutRecords& records, BufferPool& pool) const {
  const std::string& path = shards()->path(file);
  const Buffer buffer = pool.allocate(path.size());
  std::memcpy(buffer->data(), path.data(), path.size());
  Column paths = Column::fixed(pool, DType::kBytes, {}, records.size());
  std::ranges::fill(paths.mutable_values<std::string_view>(),
                    std::string_view(reinterpret_cast<const char*>(buffer->data()), path.size()));
  paths.hold(buffer);
  Block::Columns columns{std::move(paths)};
  if (!labels_.empty()) {
    Column labels = Column::fixed(pool, DType::kInt64, {}, records.size());
    std::ranges::fill(labels.mutable_values<int64_t>(), labels_[file]);
    columns.push_back(std::move(labels));
  }
  return columns;
}

}  // namespace millrace
