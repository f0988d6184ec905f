#include "millrace/tokenizer/json_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

using nlohmann::ordered_json;

void append_number(double number, std::string& text) {
  if (!std::isfinite(number)) throw ErrorException(ErrorCode::kInvalidArgument, "a score is not finite");
  std::array<char, 32> digits{};
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  const std::string_view written(digits.data(), static_cast<size_t>(result.ptr - digits.data()));
  text += written;
  if (written.find_first_of(".e") == std::string_view::npos) text += ".0";
}

void append(const ordered_json& value, size_t depth, std::string& text) {
  if (value.is_number_float()) {
    append_number(value.get<double>(), text);
    return;
  }
  if (!value.is_structured() || value.empty()) {
    text += value.dump();
    return;
  }
  const auto begin_line = [&](size_t level) { text.append(1, '\n').append(2 * level, ' '); };
  text += value.is_object() ? '{' : '[';
  bool first = true;
  for (const auto& item : value.items()) {
    if (!first) text += ',';
    first = false;
    begin_line(depth + 1);
    if (value.is_object()) text += ordered_json(item.key()).dump() + ": ";
    append(item.value(), depth + 1, text);
  }
  begin_line(depth);
  text += value.is_object() ? '}' : ']';
}

}  // namespace

std::string json_text(const ordered_json& document) {
  std::string text;
  append(document, 0, text);
  return text;
}

}  // namespace millrace
