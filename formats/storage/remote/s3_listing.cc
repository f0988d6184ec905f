#include "millrace/formats/storage/remote/s3_listing.h"

#include <fmt/format.h>
#include <pugixml.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/byte_range.h"
#include "millrace/formats/storage/remote/object_url.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  throw ErrorException(ErrorCode::kParse, "the answer is no listing: " + why);
}

}  // namespace

std::string s3_list_query(const ListRequest& request) {
  std::string query = "list-type=2";
  if (!request.page.empty()) query += "&continuation-token=" + percent_encoded(request.page);
  if (request.by_folder) query += "&delimiter=%2F";
  query += fmt::format("&encoding-type=url&max-keys={}", request.most);
  if (!request.prefix.empty()) query += "&prefix=" + percent_encoded(request.prefix);
  return query;
}

ListedPage parse_s3_page(std::string_view body) {
  pugi::xml_document document;
  // Line ends and blanks are of keys, where the store does not encode them.
  constexpr unsigned int kFlags = pugi::parse_escapes | pugi::parse_cdata | pugi::parse_ws_pcdata_single |
                                  pugi::parse_doctype | pugi::parse_declaration;
  const pugi::xml_parse_result parsed = document.load_buffer(body.data(), body.size(), kFlags);
  if (!parsed) refuse(fmt::format("{} at byte {} of {}", parsed.description(), parsed.offset, body.size()));
  for (const pugi::xml_node node : document.children()) {
    if (node.type() == pugi::node_doctype) refuse("it has a DOCTYPE");
  }
  const pugi::xml_node listing = document.child("ListBucketResult");
  if (!listing) refuse("there is no ListBucketResult");
  const bool is_encoded = std::string_view(listing.child_value("EncodingType")) == "url";
  const auto text = [&](const char* value) { return is_encoded ? percent_decoded(value, true) : std::string(value); };

  ListedPage page;
  for (const pugi::xml_node entry : listing.children("Contents")) {
    ListedObject object{.key = text(entry.child_value("Key"))};
    const auto size = parse_count(entry.child_value("Size"));
    if (object.key.empty()) refuse("an object has no key");
    if (!size)
      refuse(fmt::format("the size of '{}' is '{}'", one_line(object.key), one_line(entry.child_value("Size"))));
    object.version = {.tag = strong_tag(entry.child_value("ETag")), .size = *size};
    page.objects.push_back(std::move(object));
  }
  for (const pugi::xml_node entry : listing.children("CommonPrefixes")) {
    page.folders.push_back(text(entry.child_value("Prefix")));
  }
  if (std::string_view(listing.child_value("IsTruncated")) == "true") {
    page.next = listing.child_value("NextContinuationToken");
    if (page.next.empty()) refuse("it goes on, but does not say where");
  }
  return page;
}

}  // namespace millrace
