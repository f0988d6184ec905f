#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "millrace/formats/storage/remote/retry.h"
#include "millrace/formats/storage/remote/s3_store.h"
#include "millrace/formats/storage/remote/unfinished_upload.h"

namespace millrace {

/// Uploads of objects whose URLs begin with `prefix`, `s3://BUCKET/KEY…`, that began before `older_than` ago by the
/// store's clock, as it lists them: by key. Blocks. Throws `kIo` where the store does not answer, or with something
/// else.
[[nodiscard]] std::vector<UnfinishedUpload> list_unfinished_uploads(const HttpCalls& calls, S3Store& store,
                                                                    const std::string& prefix,
                                                                    std::chrono::seconds older_than);

/// Removes the parts; a writer that is still at it fails. One that is there no more is no error. Blocks. Throws `kIo`.
void abort_unfinished_upload(const HttpCalls& calls, S3Store& store, const UnfinishedUpload& upload);

}  // namespace millrace
