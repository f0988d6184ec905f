#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/storage/whole_file.h"

namespace millrace {

/// The text of a file as the type that its document describes. Throws `kParse` naming the file.
template <typename T>
[[nodiscard]] T json_as(std::string_view text, const std::string& path) {
  try {
    return parse_json<nlohmann::json>(text, path).template get<T>();
  } catch (const nlohmann::json::exception& e) {
    throw ErrorException({.code = ErrorCode::kParse, .message = e.what(), .shard = path});
  }
}

/// A file as the type that its document describes; `what` it is: for messages. Throws `kIo`, and `kParse` naming the
/// file.
template <typename T>
[[nodiscard]] T read_json(const std::string& path, const char* what) {
  return json_as<T>(read_whole_file(path, what), path);
}

}  // namespace millrace
