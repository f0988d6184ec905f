#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/storage/remote/unfinished_upload.h"

namespace millrace {

// The texts of uploads in parts (https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html).

/// The number of an upload, of the answer to `CreateMultipartUpload`; empty: it is no such answer.
[[nodiscard]] std::string parse_s3_upload_id(std::string_view body);

/// Whether an answer to `CompleteMultipartUpload` says that the object is there. Blanks may come before it for minutes,
/// with status 200, and an error after them.
[[nodiscard]] bool is_s3_completed(std::string_view body);

/// The body of `CompleteMultipartUpload`. `tags`: the field `ETag` of each part, in order.
[[nodiscard]] std::string s3_complete_body(const std::vector<std::string>& tags);

/// The entity tag, without quotes, of an object that came in one request: the MD5 of its content; empty where nobody
/// can say it.
[[nodiscard]] std::string s3_tag_of(std::string_view content);

/// The entity tag, without quotes, of an object of parts with these: the MD5 of their MD5s, `-` and how many there are;
/// empty where they are not MD5s.
[[nodiscard]] std::string s3_tag_of_parts(const std::vector<std::string>& tags);

/// The query of `ListMultipartUploads`. `page`: `S3UploadPage::next` of the page before; empty: the first.
[[nodiscard]] std::string s3_list_uploads_query(std::string_view prefix, const std::string& page);

struct S3UploadPage {
  std::vector<UnfinishedUpload> uploads = {};
  std::string next = {};  ///< empty: this is the last
};

/// Reads a page of its answer. Throws `kParse` as `parse_s3_page`, and for a time that is none.
[[nodiscard]] S3UploadPage parse_s3_uploads(const std::string& bucket, std::string_view body);

}  // namespace millrace
