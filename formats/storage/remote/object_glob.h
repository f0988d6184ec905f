#pragma once

#include <string>
#include <vector>

#include "millrace/formats/storage/remote/listed_objects.h"
#include "millrace/formats/storage/remote/object_read.h"
#include "millrace/formats/storage/remote/object_store.h"

namespace millrace {

/// The URLs of the objects that a pattern matches, `s3://BUCKET/train/*/part-*.tfrecord`, sorted by their bytes, by the
/// rules of local files (`glob_local`): `*`, `?` and `[a-z]` do not match a `/`, nor a `.` at the beginning of a name,
/// `\` takes the meaning of the next character. A pattern that is the key of an object is that object alone. Folders
/// that it matches, what keys have before a `/`, end in `/` too, and so do keys of no bytes that stand for them. A URL
/// without wildcards that nobody may list for is taken as it stands.
///
/// Blocks; not on the engine's thread. `known` gets the versions of what is found. Throws `kIo` where the store does
/// not answer, or with something else, and `kInvalidArgument` for a URL without a bucket or key.
[[nodiscard]] std::vector<std::string> glob_bucket(const HttpCalls& calls, BucketStore& store,
                                                   const std::string& pattern, ListedObjects& known,
                                                   const GlobProgress& progress = nullptr);

/// The name under which versions are known.
[[nodiscard]] std::string listed_name(const BucketStore& store, const std::string& url);

}  // namespace millrace
