#include "millrace/formats/elements/elements_folder.h"

#include "millrace/formats/elements/bucket_folder.h"
#include "millrace/formats/elements/local_folder.h"
#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/formats/storage/shown_url.h"

namespace millrace {
namespace {

void require_no_http(const std::string& directory) {
  if (!RemoteStorage::opens(directory) || is_in_bucket(directory)) return;
  throw ErrorException({.code = ErrorCode::kInvalidArgument,
                        .message = "elements are written to a local folder or to one of a bucket, s3:// or gs://",
                        .shard = shown_url(directory)});
}

}  // namespace

std::shared_ptr<ElementsFolder> ElementsFolder::lock(const std::string& directory) {
  if (is_in_bucket(directory)) return BucketElementsFolder::lock(without_slash(directory));
  require_no_http(directory);
  return LocalElementsFolder::lock(directory);
}

std::shared_ptr<ElementsFolder> ElementsFolder::try_lock(const std::string& directory) {
  if (is_in_bucket(directory)) return BucketElementsFolder::try_lock(without_slash(directory));
  require_no_http(directory);
  return LocalElementsFolder::try_lock(directory);
}

std::shared_ptr<const ElementsIndex> find_elements(const std::string& directory) {
  if (!RemoteStorage::opens(directory)) return find_local_elements(directory);
  const std::string folder = without_slash(directory);
  const std::shared_ptr<RemoteStorage> storage = RemoteStorage::of_process();
  storage->forget(path_in(folder, ElementsIndex::kFileName));
  return ElementsIndex::find(*storage, folder);
}

}  // namespace millrace
