#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "millrace/formats/elements/elements_folder.h"
#include "millrace/formats/storage/folder_lock.h"

namespace millrace {

/// A folder of elements on this machine, read and written side by side: whoever writes has the folder's `FolderLock`;
/// whoever reads has a lock on the files of one generation, which stay as long as anybody has it, also behind the back
/// of a new description. So a reader keeps nobody from writing, and no writer takes a reader's files away.
class LocalElementsFolder final : public ElementsFolder {
 public:
  [[nodiscard]] static std::shared_ptr<ElementsFolder> lock(const std::string& directory);
  [[nodiscard]] static std::shared_ptr<ElementsFolder> try_lock(const std::string& directory);

  LocalElementsFolder(const std::string& directory, std::unique_ptr<FolderLock> lock)
      : ElementsFolder(directory), lock_(std::move(lock)) {}
  [[nodiscard]] uint64_t next_generation() override;
  [[nodiscard]] std::unique_ptr<OutputFile> create(const std::string& name) override;
  void remove(const std::string& name) noexcept override;
  void commit(const ElementsIndex& index) override;
  [[nodiscard]] std::shared_ptr<const ElementsIndex> in_use(std::shared_ptr<const ElementsIndex> index) override;
  /// Those that others have replaced, unless somebody reads them, and what killed processes left.
  void remove_others(const ElementsIndex* index) override;

 private:
  [[nodiscard]] std::string path(const std::string& name) const;

  const std::unique_ptr<FolderLock> lock_;
};

/// The index of a folder, or null when there is none. Its files stay where they are as long as it lives. Blocks. Throws
/// as `ElementsIndex::find`.
[[nodiscard]] std::shared_ptr<const ElementsIndex> find_local_elements(const std::string& directory);

/// The generation in the name of a file of elements.
[[nodiscard]] uint64_t generation_of_elements(std::string_view name);
/// Throws that a folder holds a file that nobody who writes elements has made.
[[noreturn]] void refuse_elements_folder(const std::string& directory, const std::string& name);

}  // namespace millrace
