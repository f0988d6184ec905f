// In place of all others where the libraries are not there: a URL is known for one, and refused.
#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/disk_cache.h"
#include "millrace/formats/storage/remote/remote_storage.h"

namespace millrace {
namespace {

Error refusal(const std::string& url) {
  return {.code = ErrorCode::kInvalidArgument,
          .message = "this Millrace was built without object stores and URLs: without libcurl, OpenSSL or pugixml",
          .shard = url};
}

}  // namespace

class RemoteStorage::Shared {};

// NOLINTNEXTLINE(performance-unnecessary-value-param): as the one that it stands for
RemoteStorage::RemoteStorage(RemoteOptions) : shared_(std::make_shared<Shared>()) {}
RemoteStorage::~RemoteStorage() = default;
std::shared_ptr<RemoteStorage> RemoteStorage::of_process() { return std::make_shared<RemoteStorage>(); }
std::vector<std::string> RemoteStorage::glob_of_process(const std::string& pattern, const GlobProgress&) {
  throw ErrorException(refusal(pattern));
}
std::vector<std::string> RemoteStorage::located_of_process(std::vector<std::string> paths) { return paths; }
void RemoteStorage::open(const std::string& path, std::shared_ptr<OpenSink> sink) {
  sink->open_done({.error = {.error = refusal(path)}});
}
std::vector<std::string> RemoteStorage::glob(const std::string& pattern, const GlobProgress&) {
  throw ErrorException(refusal(pattern));
}
std::unique_ptr<OutputFile> RemoteStorage::create(const std::string& url, const OutputOptions&) {
  throw ErrorException(refusal(url));
}
std::vector<UnfinishedUpload> RemoteStorage::unfinished_uploads(const std::string& prefix, std::chrono::seconds) {
  throw ErrorException(refusal(prefix));
}
void RemoteStorage::abort_upload(const UnfinishedUpload& upload) { throw ErrorException(refusal(upload.url)); }
std::vector<std::string> RemoteStorage::list(const std::string& prefix) { throw ErrorException(refusal(prefix)); }
std::vector<std::string> RemoteStorage::plain_names_in(const std::string& folder) {
  throw ErrorException(refusal(folder));
}
void RemoteStorage::remove(const std::vector<std::string>& urls) {
  if (!urls.empty()) throw ErrorException(refusal(urls[0]));
}
std::optional<ObjectNow> RemoteStorage::look(const std::string& url, size_t) { throw ErrorException(refusal(url)); }
bool RemoteStorage::keeps_if_absent(const std::string& url) { throw ErrorException(refusal(url)); }
bool RemoteStorage::keeps_if_version(const std::string& url) { throw ErrorException(refusal(url)); }
void RemoteStorage::forget(const std::string&) {}
std::optional<uint64_t> RemoteStorage::listed_size(const std::string&) { return std::nullopt; }

std::string RemoteStorage::identity(const std::string& url) { return url; }

std::shared_ptr<DiskCache> DiskCache::open(const DiskCacheOptions& options) {
  throw ErrorException(refusal(options.folder));
}
// NOLINTNEXTLINE(performance-unnecessary-value-param): as the one that it stands for
void DiskCache::open_file(Storage&, const std::string&, const std::string&, std::shared_ptr<OpenSink>) {}
bool DiskCache::flush(std::chrono::milliseconds) { return true; }
DiskCacheStatistics DiskCache::statistics() const { return {}; }

std::optional<std::string> process_environment(std::string_view) { return std::nullopt; }
std::shared_ptr<HttpEngine> HttpEngine::of_process() { return nullptr; }
HttpStatistics HttpEngine::statistics() const { return {}; }
HttpStatistics HttpStatistics::operator-(const HttpStatistics&) const { return {}; }

}  // namespace millrace
