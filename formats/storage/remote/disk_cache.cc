#include "millrace/formats/storage/remote/disk_cache.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include <unistd.h>

#include "millrace/formats/storage/remote/block_cache.h"
#include "millrace/formats/storage/remote/cache_folder.h"
#include "millrace/formats/storage/remote/cached_file.h"

namespace millrace {
namespace {

// What the last moments of a process have brought is written, unless the disk stands still.
constexpr std::chrono::seconds kLongestAtExit{5};

struct Caches {
  std::mutex mutex;
  std::map<std::pair<pid_t, std::string>, std::shared_ptr<BlockCache>> all;
};

// Never destroyed: engines and threads may outlive the objects of the process.
Caches& caches() {
  static Caches* const caches = new Caches;
  return *caches;
}

}  // namespace

std::shared_ptr<DiskCache> DiskCache::open(const DiskCacheOptions& options) {
  Caches& known = caches();
  const std::lock_guard lock(known.mutex);
  std::string folder = std::filesystem::absolute(options.folder).lexically_normal().string();
  if (folder.ends_with('/')) folder.pop_back();
  const std::pair<pid_t, std::string> place{::getpid(), folder};
  auto found = known.all.find(place);
  if (found == known.all.end()) {
    prepare_cache_folder(options.folder);
    auto blocks = std::make_shared<BlockCache>(
        DiskCacheOptions{.folder = folder, .bytes = options.bytes, .on_end = options.on_end});
    found = known.all.emplace(place, std::move(blocks)).first;
    static const int registered = std::atexit([] {
      const std::unique_lock all(caches().mutex, std::try_to_lock);
      if (!all.owns_lock()) return;
      for (const auto& [of, cache] : caches().all) {
        if (of.first == ::getpid()) cache->end(kLongestAtExit);
      }
    });
    static_cast<void>(registered);
  }
  found->second->set_bytes(options.bytes);
  return std::make_shared<DiskCache>(found->second);
}

void DiskCache::open_file(Storage& storage, const std::string& url, const std::string& identity,
                          std::shared_ptr<OpenSink> sink) {
  open_cached(blocks_, storage, url, identity, std::move(sink));
}

bool DiskCache::flush(std::chrono::milliseconds most) { return blocks_->flush(most); }

DiskCacheStatistics DiskCache::statistics() const { return blocks_->statistics(); }

}  // namespace millrace
