#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>
#include <locale.h>  // NOLINT(modernize-deprecated-headers): that of POSIX
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"

namespace millrace {

/// Levels of arrays and objects in a document. What walks through one, as printing it does, needs stack for each.
inline constexpr int kMostJsonDepth = 100;

/// While one is alive, numbers have a point before their fraction in this thread, whatever `setlocale` chose: the JSON
/// library reads only the first byte of a locale's decimal separator, and takes 1.75 for 1 where it has two.
class PointInNumbers {
 public:
  PointInNumbers();
  ~PointInNumbers();
  PointInNumbers(const PointInNumbers&) = delete;
  PointInNumbers& operator=(const PointInNumbers&) = delete;

 private:
  locale_t before_;
};

/// Whether more than `kMostJsonDepth` arrays and objects lie in each other, by the brackets outside of texts.
[[nodiscard]] bool is_nested_too_deeply(std::string_view json);

/// Why a text is no JSON, of what a parser does not see: it is in another encoding than UTF-8 by its mark of byte
/// order, or has a byte 0, which parsers take for the end. Empty for any other text.
[[nodiscard]] std::string unreadable_json(std::string_view json);

/// A document that others have written, the same in every locale, which may begin with the mark of byte order of UTF-8.
/// Throws `kParse` naming `path` for one that is not JSON or is nested too deeply; no message repeats more than 120
/// characters of it. `Json`: `nlohmann::json`, or `ordered_json`.
template <typename Json = nlohmann::json>
[[nodiscard]] Json parse_json(std::string_view text, const std::string& path) {
  const auto refuse = [&path](std::string message) {
    throw ErrorException({.code = ErrorCode::kParse, .message = std::move(message), .shard = path});
  };
  if (std::string why = unreadable_json(text); !why.empty()) refuse(std::move(why));
  if (is_nested_too_deeply(text)) refuse(fmt::format("JSON nested too deeply: more than {} levels", kMostJsonDepth));
  const PointInNumbers point;
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    refuse(fmt::format("not JSON (byte {})", error.byte));
  } catch (const nlohmann::json::exception& error) {
    // It may repeat a number of any length.
    refuse(fmt::format("not JSON ({:.120})", error.what()));
  }
  return Json();
}

/// A value of such a document as a message shows it: its text in ASCII, of which no more than `most` characters.
template <typename Json>
[[nodiscard]] std::string shown_json(const Json& value, size_t most = 60) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  if (text.size() > most) text = text.substr(0, most) + "...";
  return text;
}

}  // namespace millrace
