#pragma once

#include <string>
#include <string_view>

#include "millrace/formats/storage/remote/object_store.h"

namespace millrace {

/// The query of `ListObjectsV2` (https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html), without `?`.
[[nodiscard]] std::string s3_list_query(const ListRequest& request);

/// Reads a page of its answer. Keys are bytes again where it says that they are encoded. Throws `kParse` for what is no
/// such page: other XML, sizes that are no numbers, a next page without a token, a DOCTYPE, whose entities nobody
/// expands.
[[nodiscard]] ListedPage parse_s3_page(std::string_view body);

}  // namespace millrace
