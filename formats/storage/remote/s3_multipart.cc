#include "millrace/formats/storage/remote/s3_multipart.h"

#include <array>
#include <charconv>
#include <optional>

#include <fmt/format.h>
#include <openssl/evp.h>
#include <pugixml.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/http_message.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/object_version.h"

namespace millrace {
namespace {

constexpr unsigned int kFlags =
    pugi::parse_escapes | pugi::parse_cdata | pugi::parse_ws_pcdata_single | pugi::parse_doctype;

[[noreturn]] void refuse(const std::string& why) {
  throw ErrorException(ErrorCode::kParse, "the answer is no list of uploads: " + why);
}

// Null where the document has another form.
pugi::xml_node root_of(pugi::xml_document& document, std::string_view body, const char* name) {
  if (!document.load_buffer(body.data(), body.size(), kFlags)) return {};
  return document.child(name);
}

// The 16 bytes of an MD5 in hexadecimal digits.
std::optional<std::string> md5_of_tag(std::string_view tag) {
  constexpr size_t kDigits = 32;
  if (tag.size() != kDigits) return std::nullopt;
  std::string bytes;
  for (size_t i = 0; i < kDigits; i += 2) {
    unsigned int byte = 0;
    const auto [end, code] = std::from_chars(tag.data() + i, tag.data() + i + 2, byte, 16);
    if (code != std::errc() || end != tag.data() + i + 2) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

// `2026-11-28T12:00:00.000Z`; nothing where it is no such time.
std::optional<std::chrono::system_clock::time_point> parse_time(std::string_view text) {
  std::array<int, 6> parts{};  // year to second
  constexpr std::string_view kForm = "0000-00-00T00:00:00";
  if (text.size() < kForm.size()) return std::nullopt;
  size_t at = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t digits = i == 0 ? 4 : 2;
    const auto [end, code] = std::from_chars(text.data() + at, text.data() + at + digits, parts[i]);
    if (code != std::errc() || end != text.data() + at + digits) return std::nullopt;
    at += digits;
    if (at < kForm.size() && text[at] != kForm[at]) return std::nullopt;
    ++at;
  }
  const std::chrono::year_month_day day(std::chrono::year(parts[0]),
                                        std::chrono::month(static_cast<unsigned>(parts[1])),
                                        std::chrono::day(static_cast<unsigned>(parts[2])));
  // Years that the clock can count to.
  const bool is_time = day.ok() && parts[0] >= 1970 && parts[0] < 2200 && parts[3] >= 0 && parts[3] < 24 &&
                       parts[4] >= 0 && parts[4] < 60 && parts[5] >= 0 && parts[5] <= 60;
  if (!is_time) return std::nullopt;
  return std::chrono::sys_days(day) + std::chrono::hours(parts[3]) + std::chrono::minutes(parts[4]) +
         std::chrono::seconds(parts[5]);
}

}  // namespace

std::string parse_s3_upload_id(std::string_view body) {
  pugi::xml_document document;
  const std::string id = root_of(document, body, "InitiateMultipartUploadResult").child_value("UploadId");
  // As rclone names it.
  return id.empty() ? document.child("InitiateMultipartUpload").child_value("UploadId") : id;
}

bool is_s3_completed(std::string_view body) {
  pugi::xml_document document;
  return !root_of(document, body, "CompleteMultipartUploadResult").empty();
}

std::string s3_complete_body(const std::vector<std::string>& tags) {
  pugi::xml_document document;
  pugi::xml_node upload = document.append_child("CompleteMultipartUpload");
  upload.append_attribute("xmlns") = "http://s3.amazonaws.com/doc/2006-03-01/";
  for (size_t i = 0; i < tags.size(); ++i) {
    pugi::xml_node part = upload.append_child("Part");
    part.append_child("PartNumber").text().set(static_cast<unsigned int>(i + 1));
    part.append_child("ETag").text().set(tags[i].c_str());
  }
  struct Text final : pugi::xml_writer {
    void write(const void* data, size_t size) override { text.append(static_cast<const char*>(data), size); }
    std::string text;
  } writer;
  document.save(writer, "", pugi::format_raw | pugi::format_no_declaration);
  return std::move(writer.text);
}

std::string s3_tag_of(std::string_view content) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(content.data(), content.size(), digest.data(), &size, EVP_md5(), nullptr) != 1) return {};  // FIPS
  std::string tag;
  for (unsigned int i = 0; i < size; ++i) tag += fmt::format("{:02x}", digest[i]);
  return tag;
}

std::string s3_tag_of_parts(const std::vector<std::string>& tags) {
  std::string all;
  for (const std::string& tag : tags) {
    const auto bytes = md5_of_tag(strong_tag(tag));
    if (!bytes) return {};
    all += *bytes;
  }
  const std::string tag = s3_tag_of(all);
  return tag.empty() ? tag : fmt::format("{}-{}", tag, tags.size());
}

std::string s3_list_uploads_query(std::string_view prefix, const std::string& page) {
  std::string query = "uploads&encoding-type=url&max-uploads=1000";
  if (!prefix.empty()) query += "&prefix=" + percent_encoded(prefix);
  return page.empty() ? query : query + page;
}

S3UploadPage parse_s3_uploads(const std::string& bucket, std::string_view body) {
  pugi::xml_document document;
  const pugi::xml_node listing = root_of(document, body, "ListMultipartUploadsResult");
  if (!listing) refuse("there is no ListMultipartUploadsResult");
  const bool is_encoded = std::string_view(listing.child_value("EncodingType")) == "url";
  const auto text = [&](const char* value) { return is_encoded ? percent_decoded(value, true) : std::string(value); };
  S3UploadPage page;
  for (const pugi::xml_node entry : listing.children("Upload")) {
    const std::string key = text(entry.child_value("Key"));
    const std::string id = entry.child_value("UploadId");
    const auto begun = parse_time(entry.child_value("Initiated"));
    if (key.empty() || id.empty()) refuse("an upload has no key or number");
    if (!begun) {
      refuse(fmt::format("'{}' began at '{}'", one_line(key), one_line(entry.child_value("Initiated"))));
    }
    page.uploads.push_back(
        {.url = ObjectUrl{.scheme = "s3", .bucket = bucket, .key = key}.to_string(), .id = id, .begun = *begun});
  }
  if (std::string_view(listing.child_value("IsTruncated")) != "true") return page;
  const std::string key = text(listing.child_value("NextKeyMarker"));
  if (key.empty()) refuse("it goes on, but does not say where");
  page.next = "&key-marker=" + percent_encoded(key);
  if (const std::string id = listing.child_value("NextUploadIdMarker"); !id.empty()) {
    page.next += "&upload-id-marker=" + percent_encoded(id);
  }
  return page;
}

}  // namespace millrace
