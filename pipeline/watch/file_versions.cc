#include "millrace/pipeline/watch/file_versions.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace millrace {

std::optional<std::string> FileVersions::earlier(const std::string& path, const std::string& version) {
  const XXH128_hash_t digest = XXH3_128bits(path.data(), path.size());
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] = versions_.try_emplace({digest.low64, digest.high64}, version);
  if (is_new || known->second == version) return std::nullopt;
  return known->second;
}

class VersionCheckedStorage::CheckedOpen final : public OpenSink {
 public:
  CheckedOpen(std::shared_ptr<FileVersions> versions, std::shared_ptr<StorageLifetime> lifetime, std::string path,
              std::shared_ptr<OpenSink> sink)
      : versions_(std::move(versions)),
        lifetime_(std::move(lifetime)),
        path_(std::move(path)),
        sink_(std::move(sink)) {}

  void open_done(OpenResult result) noexcept override {
    const auto checked = [this](std::shared_ptr<File> file) {
      check(*file);
      return file;
    };
    lifetime_->answer(*sink_, with_file(std::move(result), checked));
  }

 private:
  void check(const File& file) const {
    const std::string version = file.version();
    const std::optional<std::string> earlier = versions_->earlier(path_, version);
    if (!earlier) return;
    throw ErrorException({.code = ErrorCode::kIo,
                          .message = fmt::format("the file is another one than when this pipeline first opened it: "
                                                 "that had the version ({}), this one has ({})",
                                                 *earlier, version),
                          .shard = path_});
  }

  const std::shared_ptr<FileVersions> versions_;
  const std::shared_ptr<StorageLifetime> lifetime_;
  const std::string path_;
  const std::shared_ptr<OpenSink> sink_;
};

void VersionCheckedStorage::open(const std::string& path, std::shared_ptr<OpenSink> sink) {
  wrapped_->open(path, std::make_shared<CheckedOpen>(versions_, lifetime_, path, std::move(sink)));
}

}  // namespace millrace
