#pragma once

#include <string>
#include <vector>

#include "millrace/formats/storage/remote/object_store.h"
#include "millrace/formats/storage/remote/retry.h"

namespace millrace {

/// Removes objects, many at a time; those that are not there are fine. Blocks; not on the engine's thread. Throws `kIo`
/// with the first error: some may be there still.
void remove_objects(const HttpCalls& calls, BucketStore& store, const std::vector<std::string>& urls);

}  // namespace millrace
