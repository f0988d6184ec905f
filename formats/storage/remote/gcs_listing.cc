#include "millrace/formats/storage/remote/gcs_listing.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/storage/remote/byte_range.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostObjects = 100'000;
constexpr size_t kLongestKey = 1024;
constexpr size_t kLongestToken = 64 << 10;
constexpr size_t kMostShown = 60;

[[noreturn]] void refuse(const std::string& why) {
  throw ErrorException(ErrorCode::kParse, "the answer is no listing: " + why);
}

const Json* array(const Json& document, const char* name) {
  const auto found = document.find(name);
  if (found == document.end()) return nullptr;
  if (!found->is_array()) refuse(fmt::format("its '{}' are no array", name));
  if (found->size() > kMostObjects) refuse(fmt::format("it has {} '{}'", found->size(), name));
  return &*found;
}

std::string key(const Json& text, const char* what) {
  if (!text.is_string()) refuse(fmt::format("{} is no text", what));
  auto key = text.get<std::string>();
  if (key.empty() || key.size() > kLongestKey) refuse(fmt::format("{} has {} bytes", what, key.size()));
  return key;
}

// 64-bit numbers are texts in Google's JSON.
std::optional<uint64_t> count(const Json& item, const char* name) {
  const auto found = item.find(name);
  if (found == item.end()) return std::nullopt;
  std::optional<uint64_t> number;
  if (found->is_string()) number = parse_count(found->get_ref<const std::string&>());
  if (found->is_number_unsigned()) number = parse_count(found->dump());
  if (!number) refuse(fmt::format("'{}' is no {}", shown_json(*found), name));
  return number;
}

ListedObject object(const Json& item) {
  if (!item.is_object() || !item.contains("name")) refuse("an object has no name");
  ListedObject object{.key = key(item["name"], "a name")};
  const auto size = count(item, "size");
  if (!size) refuse(fmt::format("it does not say the size of '{}'", excerpt(printable(object.key), kMostShown)));
  object.version.size = *size;
  if (const auto generation = count(item, "generation")) object.version.generation = fmt::format("{}", *generation);
  return object;
}

}  // namespace

std::string gcs_list_url(const GcsService& service, const ListRequest& request) {
  std::string url =
      fmt::format("{}/storage/v1/b/{}/o?fields={}&maxResults={}", service.endpoint, percent_encoded(request.bucket),
                  percent_encoded("items(name,size,generation),prefixes,nextPageToken"), request.most);
  const auto add = [&url](const char* name, const std::string& value) {
    if (!value.empty()) url += fmt::format("&{}={}", name, percent_encoded(value));
  };
  add("prefix", request.prefix);
  if (request.by_folder) add("delimiter", "/");
  add("pageToken", request.page);
  add("userProject", service.user_project);
  return url;
}

ListedPage parse_gcs_page(std::string_view body) {
  Json document;
  try {
    document = parse_json<Json>(body, "");
  } catch (const ErrorException& exception) {
    refuse(exception.error().message);
  }
  if (!document.is_object()) refuse("it is no object of JSON");
  ListedPage page;
  if (const Json* items = array(document, "items")) {
    for (const Json& item : *items) page.objects.push_back(object(item));
  }
  if (const Json* prefixes = array(document, "prefixes")) {
    for (const Json& prefix : *prefixes) page.folders.push_back(key(prefix, "a prefix"));
  }
  if (const auto token = document.find("nextPageToken"); token != document.end()) {
    if (!token->is_string()) refuse("its 'nextPageToken' is no text");
    page.next = token->get<std::string>();
  }
  if (page.next.size() > kLongestToken) refuse("its 'nextPageToken' is too long");
  return page;
}

}  // namespace millrace
