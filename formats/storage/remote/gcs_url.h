#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "millrace/formats/storage/remote/environment.h"
#include "millrace/formats/storage/remote/object_url.h"

namespace millrace {

/// Whether a path begins with `gs://`.
[[nodiscard]] bool is_gcs_url(std::string_view path);

/// `gs://BUCKET/KEY`; without a key it is the bucket. Throws `kInvalidArgument` naming `path` where no bucket can have
/// the name (https://cloud.google.com/storage/docs/buckets#naming) or no object the key
/// (https://cloud.google.com/storage/docs/objects#naming): up to 1,024 bytes of UTF-8 without line ends, and neither
/// `.` nor `..`.
[[nodiscard]] ObjectUrl parse_gcs_url(const std::string& path);

/// Where requests go, and who pays for them.
struct GcsService {
  /// `http://` or `https://`, without `/` at its end. Default: https://storage.googleapis.com
  std::string endpoint = "https://storage.googleapis.com";
  /// The project that pays for a bucket whose requesters pay. Default: empty, none
  std::string user_project = {};
};

/// The endpoint that STORAGE_EMULATOR_HOST or CLOUD_STORAGE_EMULATOR_ENDPOINT names, `http://` where it has no scheme;
/// nothing where neither is set. Throws `kInvalidArgument` naming the variable.
[[nodiscard]] std::optional<std::string> gcs_emulator(const Environment& environment);

/// An endpoint that somebody has written, without slashes at its end. Throws `kInvalidArgument` naming `what`.
[[nodiscard]] std::string gcs_endpoint(const std::string& text, std::string_view what);

/// Of the content of an object by the JSON API (https://cloud.google.com/storage/docs/json_api/v1/objects/get), of one
/// generation alone unless that is empty.
///
/// Not the XML API: there a public object comes from caches, an hour old by default
/// (https://cloud.google.com/storage/docs/caching), its errors and listings would be of another format, and what is
/// named in the query, the generation and who pays, in headers.
[[nodiscard]] std::string gcs_media_url(const GcsService& service, const ObjectUrl& object,
                                        const std::string& generation = "");

/// To which a new object is posted (https://cloud.google.com/storage/docs/json_api/v1/objects/insert). `type`:
/// `multipart` or `resumable`. `replaced`: only in the place of this generation of it, 0: only where there is no such
/// object, empty: whatever there is.
[[nodiscard]] std::string gcs_upload_url(const GcsService& service, const ObjectUrl& object, std::string_view type,
                                         const std::string& replaced);

/// Of the description of an object: its size, CRC32C, generation and metadata.
[[nodiscard]] std::string gcs_resource_url(const GcsService& service, const ObjectUrl& object);
/// Of one generation of it, which is the current one or is not touched.
[[nodiscard]] std::string gcs_generation_url(const GcsService& service, const ObjectUrl& object,
                                             const std::string& generation);

}  // namespace millrace
