#include "tests/formats/storage/remote/s3_uploads.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/evp.h>

#include "tests/formats/storage/remote/s3_service.h"

namespace millrace::test {
namespace {

std::string md5_of(const std::string& text) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(digest.data()), &size, EVP_md5(), nullptr);
  return digest.substr(0, size);
}

std::string hex_of(const std::string& bytes) {
  std::string text;
  for (const unsigned char c : bytes) text += fmt::format("{:02x}", c);
  return text;
}

ServedFault said(int status, std::string text = "", std::map<std::string, std::string> headers = {}) {
  return {.kind = ServedFault::Kind::kStatus, .status = status, .headers = std::move(headers), .text = std::move(text)};
}

// Behind each `<NAME>`, up to the next `<`.
std::vector<std::string> values_of(const std::string& xml, const std::string& name) {
  std::vector<std::string> values;
  const std::string mark = "<" + name + ">";
  for (size_t at = xml.find(mark); at != std::string::npos; at = xml.find(mark, at + 1)) {
    const size_t begin = at + mark.size();
    values.push_back(xml.substr(begin, xml.find('<', begin) - begin));
  }
  return values;
}

bool is_refused(const ServedRequest& request, const std::string& path, const S3Uploads::Objects& objects) {
  const std::optional<std::string> tag = objects.tag(path);
  const auto none = request.headers.find("if-none-match");
  if (none != request.headers.end() && none->second == "*" && tag) return true;
  const auto match = request.headers.find("if-match");
  return match != request.headers.end() && (!tag || match->second != '"' + *tag + '"');
}

}  // namespace

std::optional<ServedFault> S3Uploads::answer(const ServedRequest& request, const std::string& path,
                                             const Objects& objects) {
  const std::map<std::string, std::string> query = s3_query(request);
  const auto id = query.find("uploadId");
  if (id != query.end() && !uploads_.contains(id->second)) return s3_fault(404, "NoSuchUpload");
  if (request.method == "GET" && query.contains("uploads")) return list(path.substr(1, path.find('/', 1) - 1), query);
  if (request.method == "POST") {
    return query.contains("uploads") ? begin(request, path) : complete(request, query.at("uploadId"), objects);
  }
  if (request.method == "DELETE" && id != query.end()) {
    uploads_.erase(id->second);
    return said(204);
  }
  if (request.method == "DELETE") {
    objects.remove(path);
    return said(204);
  }
  if (request.method != "PUT") return std::nullopt;
  const std::string md5 = md5_of(request.body);
  const std::map<std::string, std::string> tagged{{"ETag", "\"" + hex_of(md5) + "\""}};
  if (id == query.end()) {
    if (is_refused(request, path, objects)) return s3_fault(412, "PreconditionFailed");
    objects.store(path, {.content = std::make_shared<const std::string>(request.body),
                         .tag = hex_of(md5),
                         .metadata = metadata_of(request)});
    return said(200, "", tagged);
  }
  const int number = std::stoi(query.at("partNumber"));
  if (number < 1 || number > 10'000) return s3_fault(400, "InvalidArgument");
  uploads_.at(id->second).parts[number] = {.content = request.body, .md5 = md5};
  return said(200, "", tagged);
}

std::vector<std::string> S3Uploads::unfinished() const {
  std::vector<std::string> paths;
  for (const auto& [id, upload] : uploads_) paths.push_back(upload.path);
  std::ranges::sort(paths);
  return paths;
}

ServedFault S3Uploads::begin(const ServedRequest& request, const std::string& path) {
  const std::string id = fmt::format("hidden+id/{}==", ++num_begun_);
  uploads_[id] = {.path = path,
                  .begun = fmt::format("{:%Y-%m-%dT%H:%M:%S}.000Z", fmt::gmtime(std::time(nullptr))),
                  .metadata = metadata_of(request),
                  .parts = {}};
  return said(200,
              "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<InitiateMultipartUploadResult "
              "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Bucket>bucket</Bucket><Key>key</Key><UploadId>" +
                  id + "</UploadId></InitiateMultipartUploadResult>");
}

ServedFault S3Uploads::complete(const ServedRequest& request, const std::string& id, const Objects& objects) {
  const Upload& upload = uploads_.at(id);
  const std::vector<std::string> numbers = values_of(request.body, "PartNumber");
  const std::vector<std::string> tags = values_of(request.body, "ETag");
  if (numbers.empty() || numbers.size() != tags.size()) return s3_fault(400, "MalformedXML");
  auto content = std::make_shared<std::string>();
  std::string digests;
  size_t size = 0;  // of all but the last, which some stores want to be equal
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto part = upload.parts.find(std::stoi(numbers[i]));
    if (part == upload.parts.end()) return s3_fault(400, "InvalidPart");
    const std::string tag = hex_of(part->second.md5);
    if (tags[i] != "\"" + tag + "\"" && tags[i] != "&quot;" + tag + "&quot;") return s3_fault(400, "InvalidPart");
    if (i > 0 && std::stoi(numbers[i]) <= std::stoi(numbers[i - 1])) return s3_fault(400, "InvalidPartOrder");
    const std::string& bytes = part->second.content;
    if (i == 0) size = bytes.size();
    if (bytes.size() != size && (i + 1 < numbers.size() || bytes.size() > size)) return s3_fault(400, "EntityTooSmall");
    content->append(bytes);
    digests += part->second.md5;
  }
  if (is_refused(request, upload.path, objects)) return s3_fault(412, "PreconditionFailed");
  const std::string tag = fmt::format("{}-{}", hex_of(md5_of(digests)), numbers.size());
  objects.store(upload.path, {.content = content, .tag = tag, .metadata = upload.metadata});
  uploads_.erase(id);
  return said(200,
              "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\n   \n<CompleteMultipartUploadResult "
              "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><ETag>&quot;" +
                  tag + "&quot;</ETag></CompleteMultipartUploadResult>");
}

ServedFault S3Uploads::list(const std::string& bucket, std::map<std::string, std::string> query) const {
  const std::string folder = "/" + bucket + "/";
  using Entry = std::pair<std::string, std::string>;  // key and number
  std::vector<Entry> entries;
  for (const auto& [id, upload] : uploads_) {
    if (!upload.path.starts_with(folder + query["prefix"])) continue;
    entries.emplace_back(upload.path.substr(folder.size()), id);
  }
  std::ranges::sort(entries);
  const Entry after{query["key-marker"], query["upload-id-marker"]};
  std::erase_if(entries, [&](const Entry& entry) { return entry <= after; });
  const bool is_truncated = entries.size() > most_listed_;
  if (is_truncated) entries.resize(most_listed_);
  const bool is_encoded = query["encoding-type"] == "url";
  std::string xml = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListMultipartUploadsResult "
      "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Bucket>{}</Bucket><IsTruncated>{}</IsTruncated>",
      bucket, is_truncated);
  if (is_encoded) xml += "<EncodingType>url</EncodingType>";
  if (is_truncated) {
    xml += fmt::format("<NextKeyMarker>{}</NextKeyMarker><NextUploadIdMarker>{}</NextUploadIdMarker>",
                       s3_encoded(entries.back().first), entries.back().second);
  }
  for (const auto& [key, id] : entries) {
    xml += fmt::format("<Upload><Key>{}</Key><UploadId>{}</UploadId><Initiated>{}</Initiated></Upload>",
                       s3_encoded(key), id, uploads_.at(id).begun);
  }
  return said(200, xml + "</ListMultipartUploadsResult>");
}

std::map<std::string, std::string> S3Uploads::metadata_of(const ServedRequest& request) const {
  std::map<std::string, std::string> metadata;
  for (const auto& [name, value] : request.headers) {
    if (keeps_metadata_ && name.starts_with("x-amz-meta-")) metadata[name] = value;
  }
  return metadata;
}

}  // namespace millrace::test
