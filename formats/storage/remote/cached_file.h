#pragma once

#include <memory>
#include <string>

#include "millrace/formats/storage/remote/block_cache.h"
#include "millrace/formats/storage/storage.h"

namespace millrace {

/// `DiskCache::open_file`.
void open_cached(std::shared_ptr<BlockCache> cache, Storage& storage, const std::string& url,
                 const std::string& identity, std::shared_ptr<OpenSink> sink);

}  // namespace millrace
