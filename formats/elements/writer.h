#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/formats/columnar/block.h"
#include "millrace/formats/elements/block_codec.h"
#include "millrace/formats/elements/index.h"

namespace millrace {

class ElementsFolder;
class OutputFile;

/// Writes elements to a folder, in place of those that are in it: files of a generation of their own beside the old
/// ones, then, when they are on the disk, the description that names them, in one call, then the old ones go. So the
/// folder always holds all of the one or all of the other, whenever a process is killed.
///
///     const auto folder = ElementsFolder::lock("saved");
///     ElementsWriter writer(folder, schema, {.written_by = "save", .generation = folder->next_generation()});
///     for (const Block& block : blocks) writer.append(block);
///     auto index = writer.commit();
///
/// Each file holds blocks of elements (see BlockEncoder) as the records of a TFRecord file; a new file begins with
/// the block after `file_bytes`. How elements come in blocks makes no difference to the bytes. Blocks on the disk; one
/// thread at a time.
class ElementsWriter {
 public:
  static constexpr uint64_t kFileBytes = uint64_t{1} << 30;

  /// `about.generation`: no file of the folder has it; see `next_generation`.
  ElementsWriter(std::shared_ptr<ElementsFolder> folder, SchemaPtr schema, ElementsIndex::About about,
                 uint64_t file_bytes = kFileBytes);
  /// Removes the files, unless they were committed.
  ~ElementsWriter();
  ElementsWriter(const ElementsWriter&) = delete;
  ElementsWriter& operator=(const ElementsWriter&) = delete;

  /// Throws `kIo` naming the file, after which only destruction is left, and the error of an element that is one.
  void append(const Block& block);
  /// Whether files are full and open: `sync_full_files` brings them to the disk, which takes as long as the disk does,
  /// and closes them. Otherwise `commit` does. Throws `kIo`.
  bool has_full_files() const { return !full_files_.empty(); }
  void sync_full_files();
  /// Says of the elements which files the digest does not know of; see ElementsIndex::About. Before `commit`.
  void set_nested_files(std::vector<std::string> files, uint64_t digest) {
    about_.nested_files = std::move(files);
    about_.nested_digest = digest;
  }
  /// Everything goes to the disk, and the folder has its description; see `ElementsFolder::commit`. Throws `kIo`. Once.
  std::shared_ptr<const ElementsIndex> commit();

  /// Whether `append` may wait for a network.
  [[nodiscard]] bool is_remote() const;

  int64_t num_elements() const {
    return num_places_ - num_notes_ + static_cast<int64_t>(encoder_.num_elements() - encoder_.num_notes());
  }
  uint64_t num_bytes() const { return num_bytes_; }

 private:
  void write_block();

  const std::shared_ptr<ElementsFolder> folder_;
  const SchemaPtr schema_;
  ElementsIndex::About about_;
  const uint64_t file_bytes_;
  BlockEncoder encoder_;
  std::unique_ptr<OutputFile> file_;  // that is being written
  std::vector<std::unique_ptr<OutputFile>> full_files_;
  std::vector<ElementsIndex::File> files_;
  std::vector<ElementsIndex::Block> blocks_;
  int64_t num_places_ = 0;
  int64_t num_notes_ = 0;
  uint64_t num_bytes_ = 0;
  bool committed_ = false;
};

}  // namespace millrace
