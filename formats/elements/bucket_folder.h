#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "millrace/formats/elements/elements_folder.h"
#include "millrace/formats/storage/remote/folder_leftovers.h"
#include "millrace/formats/storage/remote/object_lock.h"

namespace millrace {

/// A folder of elements in a bucket. Its files are sent while they are written, and are there when they are whole; the
/// description is one object, which says that all are. A reader of elements that are replaced loses their files.
class BucketElementsFolder final : public ElementsFolder {
 public:
  [[nodiscard]] static std::shared_ptr<ElementsFolder> lock(const std::string& directory);
  [[nodiscard]] static std::shared_ptr<ElementsFolder> try_lock(const std::string& directory);

  /// A lock that another process may hold is not waited for.
  explicit BucketElementsFolder(const std::string& directory);
  [[nodiscard]] bool is_remote() const override { return true; }
  [[nodiscard]] uint64_t next_generation() override;
  [[nodiscard]] std::unique_ptr<OutputFile> create(const std::string& name) override;
  void remove(const std::string& name) noexcept override;
  void commit(const ElementsIndex& index) override;
  void remove_others(const ElementsIndex* index) override;

 private:
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] std::string url(const std::string& name) const;

  ObjectLock lock_;
  bool may_be_committed_ = false;  // nobody knows whether the description names the files
};

/// As `folder_leftovers`, of elements: files of generations of such writers that were begun `older_than` ago and that
/// the folder's description does not name. None of a folder whose lock has been renewed lately: somebody is at it. None
/// below an id, either, which are `folder_leftovers`.
[[nodiscard]] FolderLeftovers elements_leftovers(const std::string& prefix, std::chrono::seconds older_than);

}  // namespace millrace
