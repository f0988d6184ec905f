#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "millrace/formats/elements/index.h"
#include "millrace/formats/storage/output_file.h"

namespace millrace {

/// A folder that elements are written to, local (local_folder.h) or in a bucket (bucket_folder.h), for who has its
/// lock, as long as this is there. Files of a generation that nobody has stand beside those that the description names;
/// to write the description is to put them in place. What blocks, blocks on the disk or the store. One thread at a
/// time.
class ElementsFolder {
 public:
  virtual ~ElementsFolder() = default;
  ElementsFolder(const ElementsFolder&) = delete;
  ElementsFolder& operator=(const ElementsFolder&) = delete;

  /// Makes the folder where it is not there, and takes its lock. Throws `kInvalidArgument` where another process has
  /// it, `kIo`.
  [[nodiscard]] static std::shared_ptr<ElementsFolder> lock(const std::string& directory);
  /// The same, and null where another process has it.
  [[nodiscard]] static std::shared_ptr<ElementsFolder> try_lock(const std::string& directory);

  /// Without a slash at its end.
  const std::string& directory() const { return directory_; }

  /// Whether what blocks waits for a network.
  [[nodiscard]] virtual bool is_remote() const { return false; }
  /// A generation that no file in the folder has.
  [[nodiscard]] virtual uint64_t next_generation() = 0;
  /// Begins a file of elements, which is whole at its `commit`. Throws `kIo`.
  [[nodiscard]] virtual std::unique_ptr<OutputFile> create(const std::string& name) = 0;
  /// Of a file that was begun; as far as it can be done.
  virtual void remove(const std::string& name) noexcept = 0;
  /// Writes the description of files that are whole. Throws `kIo`: then it is not there, or those files stay.
  virtual void commit(const ElementsIndex& index) = 0;
  /// An index that was committed, whose files stay as long as it is there, where the folder can see to that.
  [[nodiscard]] virtual std::shared_ptr<const ElementsIndex> in_use(std::shared_ptr<const ElementsIndex> index) {
    return index;
  }
  /// Removes the files of elements that the index does not name (null: all), as far as it can be done. Throws `kIo`
  /// where the folder cannot be read, and, before it removes anything, `kInvalidArgument` where there is no index and a
  /// file whose name begins with `elements-` but is none of theirs: the folder may hold somebody's data.
  virtual void remove_others(const ElementsIndex* index) = 0;

 protected:
  explicit ElementsFolder(std::string directory) : directory_(std::move(directory)) {}

 private:
  const std::string directory_;
};

/// The index of a folder, or null when there is none. Of a local folder its files stay where they are as long as it
/// lives. Blocks. Throws as `ElementsIndex::find`.
[[nodiscard]] std::shared_ptr<const ElementsIndex> find_elements(const std::string& directory);

}  // namespace millrace
