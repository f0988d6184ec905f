#include "tests/formats/storage/remote/google_uploads.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/base64.h"

namespace millrace::test {
namespace {

using Json = nlohmann::json;

constexpr size_t kGranule = 256 << 10;

GoogleAnswer condition_failed() {
  return google_api_error(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.");
}

std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
    table[i] = crc;
  }
  return table;
}

// Of a condition, `ifGenerationMatch`; empty: there is none.
bool is_met(const std::string& replaced, const std::string& key, const GoogleUploads::Objects& objects) {
  const auto found = objects.find(key);
  return replaced.empty() || replaced == (found == objects.end() ? "0" : found->second.generation);
}

// The parts of a body of `multipart/related`.
std::vector<std::string> parts_of(const GoogleRequest& request) {
  const std::string& type = request.headers.at("content-type");
  const std::string mark = "--" + type.substr(type.find("boundary=") + 9);
  std::vector<std::string> parts;
  size_t at = request.body.find(mark);
  while (at != std::string::npos) {
    const size_t begin = request.body.find("\r\n\r\n", at);
    const size_t end = request.body.find("\r\n" + mark, at + 1);
    if (begin == std::string::npos || end == std::string::npos) break;
    parts.push_back(request.body.substr(begin + 4, end - begin - 4));
    at = end + 2;
  }
  return parts;
}

}  // namespace

std::string google_crc32c(const std::string& bytes) {
  static const std::array<uint32_t, 256> table = make_table();
  uint32_t crc = ~0U;
  for (const char c : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  crc = ~crc;
  std::string big_endian;
  for (int shift = 24; shift >= 0; shift -= 8) big_endian += static_cast<char>(crc >> shift);
  return encode_base64(big_endian);
}

GoogleAnswer google_api_error(int status, const std::string& reason, const std::string& message) {
  const Json error{{"code", status},
                   {"message", message},
                   {"errors", Json::array({{{"domain", "global"}, {"reason", reason}, {"message", message}}})}};
  return {.status = status, .body = Json{{"error", error}}.dump()};
}

std::string google_resource(const std::string& key, const GoogleObject& object) {
  Json resource{{"kind", "storage#object"},
                {"name", key},
                {"size", fmt::format("{}", object.content.size())},
                {"generation", object.generation},
                {"crc32c", google_crc32c(object.content)}};
  if (!object.metadata.empty()) resource["metadata"] = Json::parse(object.metadata);
  return resource.dump();
}

GoogleAnswer GoogleUploads::answer(const GoogleRequest& request, Query query, Objects& objects,
                                   const GoogleFault& fault, const std::string& endpoint,
                                   const std::string& generation) {
  if (query.contains("upload_id")) return session(request, query["upload_id"], objects, fault, generation);
  const std::string key = query["name"];
  const std::string replaced = query["ifGenerationMatch"];
  if (!is_met(replaced, key, objects)) return condition_failed();
  if (query["uploadType"] == "resumable") {
    const std::string id = fmt::format("hidden-session-{}", ++num_sessions_);
    const Json resource = Json::parse(request.body);
    sessions_[id] = {
        .key = key, .metadata = resource.value("metadata", Json::object()).dump(), .content = "", .replaced = replaced};
    return {.headers = {{"Location", fmt::format("{}{}&upload_id={}", endpoint, request.target, id)},
                        {"x-guploader-uploadid", id}}};
  }
  const std::vector<std::string> parts = parts_of(request);
  if (query["uploadType"] != "multipart" || parts.size() != 2) return google_api_error(400, "badRequest", "no upload");
  const Json resource = Json::parse(parts[0]);
  GoogleObject object{
      .content = parts[1], .generation = generation, .metadata = resource.value("metadata", Json::object()).dump()};
  if (fault.kind == GoogleFault::Kind::kSpoilOnWay) object.content[0] ^= 1;
  if (resource.contains("crc32c") && resource["crc32c"] != google_crc32c(object.content)) {
    return google_api_error(400, "invalid", "Provided CRC32C does not match");
  }
  if (fault.kind == GoogleFault::Kind::kSpoil) object.content[0] ^= 1;
  return {.body = google_resource(key, objects[key] = std::move(object))};
}

GoogleAnswer GoogleUploads::session(const GoogleRequest& request, const std::string& id, Objects& objects,
                                    const GoogleFault& fault, const std::string& generation) {
  if (const auto known = ended_.find(id); known != ended_.end() && request.method == "PUT") {
    return {.body = known->second};
  }
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return google_api_error(404, "notFound", "No such session: " + id);
  if (request.method == "DELETE") {
    sessions_.erase(found);
    return {.status = 499};
  }
  Session& at = found->second;
  const std::string field = request.headers.at("content-range");  // bytes 0-9/10, bytes 0-9/*, bytes */10, bytes */*
  const std::string total = field.substr(field.find('/') + 1);
  if (field.substr(6, 1) != "*") {
    const size_t first = std::stoul(field.substr(6));
    const size_t last = std::stoul(field.substr(field.find('-') + 1));
    if (first != at.content.size() || last - first + 1 != request.body.size()) {
      return google_api_error(400, "invalid", "The range is another: " + request.target);
    }
    if (total == "*" && request.body.size() % kGranule != 0) return google_api_error(400, "invalid", "no multiple");
    const bool keeps_less = fault.kind == GoogleFault::Kind::kKeepLess;
    at.content += request.body.substr(0, keeps_less ? fault.kept : request.body.size());
  }
  const bool ends_early = fault.kind == GoogleFault::Kind::kEndEarly;
  if (!ends_early && (total == "*" || at.content.size() < std::stoul(total))) {
    GoogleAnswer answer{.status = 308};
    if (!at.content.empty()) answer.headers["Range"] = fmt::format("bytes=0-{}", at.content.size() - 1);
    return answer;
  }
  if (!is_met(at.replaced, at.key, objects)) return condition_failed();
  if (fault.kind == GoogleFault::Kind::kSpoilOnWay) at.content[0] ^= 1;
  const auto hash = request.headers.find("x-goog-hash");
  if (hash != request.headers.end() && hash->second != "crc32c=" + google_crc32c(at.content)) {
    return google_api_error(400, "invalid", "Provided CRC32C does not match");
  }
  GoogleObject& object = objects[at.key];
  object = {.content = std::move(at.content), .generation = generation, .metadata = at.metadata};
  if (fault.kind == GoogleFault::Kind::kSpoil) object.content[0] ^= 1;
  ended_[id] = google_resource(at.key, object);
  sessions_.erase(found);
  return {.body = ended_[id]};
}

}  // namespace millrace::test
