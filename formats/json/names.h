#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "millrace/formats/base64.h"
#include "millrace/formats/utf8.h"

namespace millrace {

/// Puts the name of a file, which may be any bytes, into an object: as text, and where it is no UTF-8 also as
/// `KEY_base64` (RFC 4648), beside which the text has U+FFFD in the place of what is none.
template <typename Json>
void put_name(Json& object, const std::string& key, const std::string& name) {
  object[key] = name;
  if (!is_valid_utf8(name)) object[key + "_base64"] = encode_base64(name);
}

/// A document as one line, without its end. What is no UTF-8 becomes U+FFFD.
template <typename Json>
[[nodiscard]] std::string json_line(const Json& document) {
  return document.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace millrace
