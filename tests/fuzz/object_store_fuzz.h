#pragma once

#include <string_view>

namespace millrace::test {

/// Reads any bytes as a page of S3's ListObjectsV2: a page, whose keys are not empty and which ends or goes on with a
/// token, or `kParse`.
void fuzz_s3_page(std::string_view bytes);

/// Reads any bytes as the answers of S3 to uploads in parts: a page of ListMultipartUploads, whose uploads have keys
/// and numbers, or `kParse`; the number of an upload, and whether it is complete, never fail.
void fuzz_s3_uploads(std::string_view bytes);

/// Reads any bytes as the body of an error of S3, which never fails.
void fuzz_s3_error(std::string_view bytes);

/// Takes any bytes for URLs of objects and of HTTP: `kInvalidArgument`, or parts that make up the same URL again.
void fuzz_object_url(std::string_view bytes);

}  // namespace millrace::test
