#pragma once

#include <string_view>

namespace millrace::test {

/// Reads any bytes as a file of Google's credentials: the form to post with them, or `kParse`; as a subject token; and
/// as the answers of token endpoints, good and bad. None of them shows what a secret may be.
void fuzz_google_credentials(std::string_view bytes);

/// Reads any bytes as a page of a listing of Google Cloud Storage: objects and folders, or `kParse`.
void fuzz_gcs_list_page(std::string_view bytes);

}  // namespace millrace::test
