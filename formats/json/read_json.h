#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/storage/whole_file.h"

namespace millrace {

/// A file as the type that its document describes; `what` it is: for messages. Throws `kIo`, and `kParse` naming the
/// file.
template <typename T>
[[nodiscard]] T read_json(const std::string& path, const char* what) {
  try {
    return parse_json<nlohmann::json>(read_whole_file(path, what), path).template get<T>();
  } catch (const nlohmann::json::exception& e) {
    throw ErrorException({.code = ErrorCode::kParse, .message = e.what(), .shard = path});
  }
}

}  // namespace millrace
