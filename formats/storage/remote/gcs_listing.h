#pragma once

#include <string>
#include <string_view>

#include "millrace/formats/storage/remote/gcs_url.h"
#include "millrace/formats/storage/remote/object_store.h"

namespace millrace {

/// Asks for a page of the objects of a bucket (https://cloud.google.com/storage/docs/json_api/v1/objects/list).
[[nodiscard]] std::string gcs_list_url(const GcsService& service, const ListRequest& request);

/// Reads a page of its answer. Throws `kParse` for what is no such page: other JSON, names that no object can have,
/// sizes that are no numbers.
[[nodiscard]] ListedPage parse_gcs_page(std::string_view body);

}  // namespace millrace
