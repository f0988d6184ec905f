#include "tests/fuzz/object_store_fuzz.h"

#include <string>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/s3_error.h"
#include "millrace/formats/storage/remote/s3_listing.h"
#include "millrace/formats/storage/remote/s3_multipart.h"
#include "tests/fuzz/fuzz_error.h"

namespace millrace::test {

void fuzz_s3_page(std::string_view bytes) {
  try {
    const ListedPage page = parse_s3_page(bytes);
    for (const ListedObject& object : page.objects) require(!object.key.empty());
  } catch (const ErrorException& exception) {
    require_refusal(exception, {ErrorCode::kParse});
  }
}

void fuzz_s3_uploads(std::string_view bytes) {
  try {
    const S3UploadPage page = parse_s3_uploads("bucket", bytes);
    for (const UnfinishedUpload& upload : page.uploads) {
      require(upload.url.size() > std::string_view("s3://bucket/").size() && !upload.id.empty());
    }
    require(page.next.empty() || page.next.starts_with("&key-marker="));
  } catch (const ErrorException& exception) {
    require_refusal(exception, {ErrorCode::kParse});
  }
  require(parse_s3_upload_id(bytes).size() <= bytes.size());
  static_cast<void>(is_s3_completed(bytes));
}

void fuzz_s3_error(std::string_view bytes) {
  const S3Error error = parse_s3_error({.head = {.status = 400}, .body = std::string(bytes)});
  require(error.code.size() + error.message.size() <= bytes.size());
  static_cast<void>(has_s3_error(bytes));
}

void fuzz_object_url(std::string_view bytes) {
  try {
    const ObjectUrl url = parse_object_url(bytes);
    require(url.to_string() == bytes || url.to_string() == std::string(bytes) + '/');
    require(percent_decoded(percent_encoded(url.key, "/")) == url.key);
    const HttpUrl http = parse_http_url("https://" + url.bucket + "/" + percent_encoded(url.key, "/"));
    require(http.host == url.bucket && http.query.empty());
  } catch (const ErrorException& exception) {
    require_refusal(exception, {ErrorCode::kInvalidArgument});
  }
  try {
    const HttpUrl url = parse_http_url(bytes);
    require(bytes.starts_with(url.origin + url.path) && !url.host.empty());
  } catch (const ErrorException& exception) {
    require_refusal(exception, {ErrorCode::kInvalidArgument});
  }
}

}  // namespace millrace::test
