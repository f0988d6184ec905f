#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/formats/storage/folder_lock.h"
#include "millrace/trainer/run/shard_set_place.h"

namespace millrace {

/// A set of shards in a local folder: what is incomplete lies in it, and is renamed when it is whole.
class ShardSetFolder final : public ShardSetPlace {
 public:
  static constexpr const char* kIncomplete = ".incomplete-shards";
  static constexpr const char* kOld = "old";  ///< in it: the set that is replaced

  ShardSetFolder(const std::string& folder, const ShardSetOptions& options);
  ~ShardSetFolder() override;
  [[nodiscard]] const std::filesystem::path& incomplete() const override { return incomplete_; }
  void add(const std::string&) override {}
  void commit(const std::vector<ShardSetFile>& files,
              const std::vector<std::unique_ptr<OutputFile>>& elsewhere) override;

 private:
  void require_only_shards() const;
  void require_only_shards(const std::filesystem::path& folder) const;
  std::vector<std::filesystem::path> entries_in(const std::filesystem::path& folder) const;
  void clear_away() noexcept;

  const std::filesystem::path folder_;
  const std::filesystem::path incomplete_;
  const ShardSetOptions& options_;
  bool made_folder_ = false;
  std::optional<FolderLock> lock_;
};

}  // namespace millrace
