#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/records/shards.h"
#include "millrace/ops/format_arguments.h"
#include "millrace/ops/sources/file_source.h"

namespace millrace {

struct FilesOptions {
  /// Whether there is a feature `label`, int64: the place of the folder that a file lies in among `folder_names` of all
  /// files. Default: false
  bool label_from_folder = false;
  /// The folders' names by label, so that a part of the files, or other files, have the same labels. With
  /// `label_from_folder`. Default: none, `folder_names` of all files
  std::vector<std::string> class_names = {};
  bool shuffle_files = false;  ///< another order of the files in each epoch, drawn from `seed`. Default: false
  uint64_t seed = 0;           ///< of the order of files. Default: 0
  uint64_t max_file_bytes =
      uint64_t{64} << 20;    ///< longer ones are `record_too_large`; see also `memory_budget`. Default: 64 MiB
  DamagePolicy damage = {};  ///< what is done about files that are too long. Default: an error

  static constexpr auto fields() {
    using A = FilesOptions;
    return describe<A>("FilesOptions", field::stream<&A::label_from_folder>, field::stream<&A::class_names>.as_bytes(),
                       field::stream<&A::shuffle_files>, field::stream<&A::seed>, field::stream<&A::max_file_bytes>,
                       field::damage<&A::damage>);
  }
};

/// The names (not the paths) of the folders that files lie in, each once, sorted by their bytes: what the labels of
/// `files` stand for.
[[nodiscard]] std::vector<std::string> folder_names(const Shards& files);

/// Source: whole files, one an element, in the order of their list, several of them read at a time. `bytes` are what is
/// in the file, `path` is its name as it was given.
///
///     files(Shards::glob("flowers/*/*.jpg"), {.label_from_folder = true})
///     // bytes=\xff\xd8… path=flowers/daisy/1.jpg label=0   bytes=… path=flowers/rose/7.jpg label=1
///
/// Of tf.data `list_files` and then `map(tf.io.read_file)`. A file's label is that of the folder directly around it,
/// sorted among all, as in `keras.utils.image_dataset_from_directory` where no class has folders below its own: there,
/// and in torchvision's ImageFolder, those belong to the class. A file that is not there or cannot be read is an error,
/// as a shard would be.
class FilesOperator final : public FileSourceOperator {
 public:
  /// Throws `kInvalidArgument` where `class_names` lack the folder of a file or have one twice; they may have others.
  explicit FilesOperator(const Shards& files, const FilesOptions& options = {});
  std::string_view name() const override { return "files"; }
  OperatorTraits traits() const override;
  Cardinality cardinality(std::span<const Cardinality>) const override;

 protected:
  std::unique_ptr<RecordSplitter> splitter(uint64_t max_record_bytes) const override;
  Block::Columns more_columns(size_t file, const CutRecords& records, BufferPool& pool) const override;

 private:
  std::vector<int64_t> labels_;  // by file; empty without
};

/// What `Dataset::files` is called with.
struct FilesArguments {
  std::optional<Shards> files = {};
  FilesOptions options = {};

  static constexpr auto fields() {
    using A = FilesArguments;
    return describe<A>("files", field::required<&A::files>, field::inlined<&A::options>);
  }
};

}  // namespace millrace
