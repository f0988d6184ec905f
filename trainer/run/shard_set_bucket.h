#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "millrace/formats/storage/remote/folder_upload.h"
#include "millrace/formats/storage/temporary_directory.h"
#include "millrace/trainer/run/shard_set_place.h"

namespace millrace {

/// A set of shards in a folder of a bucket, exchanged as a whole (FolderUpload). At most those shards lie on the disk
/// that are being written or sent.
class ShardSetBucket final : public ShardSetPlace {
 public:
  ShardSetBucket(const std::string& folder, const ShardSetOptions& options);
  [[nodiscard]] const std::filesystem::path& incomplete() const override { return incomplete_; }
  void add(const std::string& name) override;
  void commit(const std::vector<ShardSetFile>& files,
              const std::vector<std::unique_ptr<OutputFile>>& elsewhere) override;

 private:
  const TemporaryDirectory directory_;
  const std::filesystem::path incomplete_;
  FolderUpload upload_;  // ends before its files go
};

}  // namespace millrace
