#include "millrace/formats/storage/remote/folder_manifest.h"

#include <algorithm>
#include <charconv>
#include <random>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "millrace folder";
constexpr int kVersion = 1;

[[noreturn]] void damaged(std::string_view why) {
  throw ErrorException(ErrorCode::kParse, fmt::format("{} of a folder is damaged: {}", FolderManifest::kObject, why));
}

FolderFile file_of(const Json& entry, const std::string& id) {
  FolderFile file{.name = entry.at("name").get<std::string>(),
                  .size = entry.at("size").get<uint64_t>(),
                  .crc = entry.at("crc32c").get<uint32_t>()};
  file.object = entry.contains("object") ? entry["object"].get<std::string>() : id + '/' + file.name;
  if (!is_name_below(file.name) || !is_name_below(file.object)) {
    damaged(fmt::format("'{}' is no name", excerpt(printable(file.name))));
  }
  return file;
}

}  // namespace

const FolderFile* FolderManifest::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(files, name, {}, &FolderFile::name);
  return found == files.end() || found->name != name ? nullptr : &*found;
}

// A line for each file.
std::string FolderManifest::to_text() const {
  std::string text = fmt::format("{{\"format\": \"{}\", \"version\": {}, \"id\": {}, \"files\": [", kFormat, kVersion,
                                 Json(id).dump());
  for (size_t i = 0; i < files.size(); ++i) {
    const FolderFile& file = files[i];
    Json entry{{"name", file.name}, {"size", file.size}, {"crc32c", file.crc}};
    if (file.object != id + '/' + file.name) entry["object"] = file.object;
    text += fmt::format("{}\n{}", i == 0 ? "" : ",", entry.dump());
  }
  return text + "\n]}\n";
}

std::optional<FolderManifest> parse_folder_manifest(std::string_view text) {
  Json document;
  try {
    document = parse_json<Json>(text, "");
  } catch (const ErrorException&) {
    return std::nullopt;
  }
  if (!document.is_object() || document.value("format", Json()) != kFormat) return std::nullopt;
  try {
    if (const int version = document.at("version").get<int>(); version != kVersion) {
      throw ErrorException(ErrorCode::kParse, fmt::format("{} of a folder is of version {}, and this Millrace reads {}",
                                                          FolderManifest::kObject, version, kVersion));
    }
    FolderManifest manifest{.id = document.at("id").get<std::string>()};
    const Json& files = document.at("files");
    manifest.files.reserve(files.size());
    for (const Json& entry : files) manifest.files.push_back(file_of(entry, manifest.id));
    const auto is_before = [](const FolderFile& a, const FolderFile& b) { return a.name < b.name; };
    if (!std::ranges::is_sorted(manifest.files, is_before)) damaged("its files are not in order");
    return manifest;
  } catch (const Json::exception& exception) {
    damaged(printable(exception.what()));
  }
}

bool is_name_below(std::string_view name) {
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.find('\0') != std::string_view::npos) return false;
    begin = end + 1;
  }
  return true;
}

std::string make_folder_id() {
  std::random_device random;
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y%m%dT%H%M%S}Z-{:08x}", fmt::gmtime(std::chrono::system_clock::to_time_t(now)), random());
}

std::optional<std::chrono::system_clock::time_point> time_of_folder_id(std::string_view id) {
  constexpr std::string_view kForm = "00000000T000000Z-xxxxxxxx";
  const auto fits = [](char form, char c) {
    const bool is_digit = c >= '0' && c <= '9';
    if (form == '0') return is_digit;
    return form == 'x' ? is_digit || (c >= 'a' && c <= 'f') : c == form;
  };
  if (!std::ranges::equal(kForm, id, fits)) return std::nullopt;
  const auto number = [&](size_t at, size_t digits) {
    int value = 0;
    std::from_chars(id.data() + at, id.data() + at + digits, value);
    return value;
  };
  namespace chrono = std::chrono;
  const chrono::year_month_day day{chrono::year(number(0, 4)), chrono::month(static_cast<unsigned>(number(4, 2))),
                                   chrono::day(static_cast<unsigned>(number(6, 2)))};
  if (!day.ok()) return std::nullopt;
  return chrono::sys_days(day) + chrono::hours(number(9, 2)) + chrono::minutes(number(11, 2)) +
         chrono::seconds(number(13, 2));
}

}  // namespace millrace
