#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/columnar/schema.h"

namespace millrace {

class Storage;

/// What a folder of elements holds: which file has which block of elements, and what the elements are. It is the file
/// `description` of the folder, written last: a folder without it is not whole, whatever else is in it.
///
/// Immutable. In memory 24 bytes for each block (1,024 elements, or the number that makes up 256 KiB).
class ElementsIndex {
 public:
  /// Name of the file.
  static constexpr std::string_view kFileName = "description";

  /// What else is said about the elements.
  struct About {
    std::string written_by;   ///< `save`, `cache`, `snapshot`: who may replace it
    uint64_t digest = 0;      ///< of what made the elements. Default: 0, nothing is known
    uint64_t path = 0;        ///< of the iteration that they come from, see Iteration. Default: 0
    uint64_t generation = 1;  ///< how often the folder was written; part of the names of its files. Default: 1
    /// Files that the elements come from and the digest does not know of: datasets opened them that a function made.
    /// Default: none
    std::vector<std::string> nested_files = {};
    uint64_t nested_digest = 0;  ///< of their fingerprints. Default: 0, of none
  };
  struct File {
    std::string name;  ///< in the folder
    uint64_t bytes = 0;
    size_t blocks = 0;  ///< number of the first block after it
  };
  struct Block {
    uint64_t offset = 0;        ///< of its frame, in its file
    int64_t first_element = 0;  ///< elements, with notes, before it
    uint32_t payload_crc = 0;   ///< masked, as in its frame
    uint32_t payload_bytes = 0;
  };

  /// Reads the bytes of the file. Throws `kParse` for bytes that are damaged or of a later version, and
  /// `kInvalidArgument` for those of another kind of file.
  [[nodiscard]] static std::shared_ptr<const ElementsIndex> parse(std::string directory, std::string_view bytes);
  /// The index of a folder, or null when there is none. Blocks. Throws `kIo`, and what `parse` throws, with the file.
  [[nodiscard]] static std::shared_ptr<const ElementsIndex> find(Storage& storage, const std::string& directory);
  /// What a writer found out. The last block's end is the end of the last file.
  ElementsIndex(std::string directory, SchemaPtr schema, About about, std::vector<File> files,
                std::vector<Block> blocks, int64_t num_places, int64_t num_notes);
  [[nodiscard]] std::string serialize() const;

  const std::string& directory() const { return directory_; }
  const SchemaPtr& schema() const { return schema_; }
  const About& about() const { return about_; }
  const std::vector<File>& files() const { return files_; }
  /// Path of a file.
  [[nodiscard]] std::string path(size_t file) const;
  size_t num_blocks() const { return blocks_.size(); }
  const Block& block(size_t number) const { return blocks_[number]; }
  /// Elements and notes of a block.
  int64_t block_places(size_t number) const {
    return (number + 1 < blocks_.size() ? blocks_[number + 1].first_element : num_places_) -
           blocks_[number].first_element;
  }
  /// The file that has a block.
  [[nodiscard]] size_t file_of(size_t block) const;
  /// The block that has the element `place`, notes counted; `num_blocks()` for one after the last.
  [[nodiscard]] size_t block_with(int64_t place) const;

  /// Elements, with the notes of what was left out of damaged shards among them.
  int64_t num_places() const { return num_places_; }
  /// Elements.
  int64_t num_elements() const { return num_places_ - num_notes_; }
  /// Bytes of all files.
  [[nodiscard]] uint64_t num_bytes() const;
  /// Of the elements alone: two folders of one digest hold the same ones, whoever wrote them, how often, and however
  /// they are cut into files.
  [[nodiscard]] uint64_t content_digest() const;
  [[nodiscard]] int64_t memory_bytes() const { return static_cast<int64_t>(blocks_.size() * sizeof(Block)); }

 private:
  const std::string directory_;
  const SchemaPtr schema_;
  const About about_;
  const std::vector<File> files_;
  const std::vector<Block> blocks_;
  const int64_t num_places_;
  const int64_t num_notes_;
};

/// Name of file `number` of a generation: `elements-1-00000.tfrecord`.
[[nodiscard]] std::string elements_file_name(uint64_t generation, size_t number);
/// Whether a file in a folder of elements is one of them, of any generation.
[[nodiscard]] bool is_elements_file_name(std::string_view name);
/// Whether it begins like one: `elements-00001.tfrecord` may be somebody's data.
[[nodiscard]] bool is_like_elements_file_name(std::string_view name);

}  // namespace millrace
