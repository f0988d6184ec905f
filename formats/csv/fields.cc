#include "millrace/formats/csv/fields.h"

#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(std::string_view record, size_t field, std::string_view what) {
  const bool has_escape = record.find("\\\"") != std::string_view::npos;
  throw ErrorException(
      ErrorCode::kParse,
      fmt::format("field {}: {}{}", field, what,
                  has_escape
                      ? "; a quote after a backslash ends the field as well: where Spark wrote the file, write it "
                        "with option(\"escape\", \"\\\"\")"
                      : ""));
}

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::optional<int64_t> integer(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Whether a number that is out of the range of double is too large for it, and not too small.
bool is_huge(std::string_view text, bool hexadecimal) {
  const size_t exponent = text.find_first_of(hexadecimal ? "pP" : "eE");
  if (exponent != std::string_view::npos) return text.substr(exponent + 1, 1) != "-";
  return text.substr(0, text.find('.')).find_first_not_of('0') != std::string_view::npos;
}

std::optional<float> real(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.starts_with('-')) return std::nullopt;
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  if (hexadecimal) text.remove_prefix(2);
  if (hexadecimal && text.starts_with('-')) return std::nullopt;
  const auto format = hexadecimal ? std::chars_format::hex : std::chars_format::general;
  const char* const last = text.data() + text.size();
  float value = 0;
  auto [end, error] = std::from_chars(text.data(), last, value, format);
  if (end != last || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    double wide = 0;
    if (std::from_chars(text.data(), last, wide, format).ec == std::errc::result_out_of_range) {
      wide = is_huge(text, hexadecimal) ? 2 : 0;
    }
    value = wide > 1 ? std::numeric_limits<float>::infinity() : static_cast<float>(wide);
  }
  return negative ? -value : value;
}

}  // namespace

std::string CsvField::unquoted() const {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (has_quotes && text[i] == '"') ++i;
  }
  return out;
}

size_t split_csv(std::string_view record, const CsvFormat& format, size_t most, std::vector<CsvField>& fields) {
  fields.clear();
  size_t count = 0;
  for (size_t begin = 0;; ++count) {
    CsvField field;
    size_t end = 0;
    if (format.quotes && begin < record.size() && record[begin] == '"') {
      end = begin + 1;
      while (true) {
        end = record.find('"', end);
        if (end == std::string_view::npos) refuse(record, count, "its quote is not closed");
        if (record.substr(end + 1, 1) != "\"") break;
        field.has_quotes = true;
        end += 2;
      }
      field.text = record.substr(begin + 1, end - begin - 1);
      ++end;
      if (end < record.size() && record[end] != format.delimiter) {
        refuse(record, count, "something stands after its closing quote");
      }
    } else {
      end = std::min(record.find(format.delimiter, begin), record.size());
      field.text = record.substr(begin, end - begin);
      if (format.quotes && field.text.find('"') != std::string_view::npos) {
        refuse(record, count, "it has a quote inside, and does not begin with one");
      }
    }
    if (count < most) fields.push_back(field);
    if (end == record.size()) return count + 1;
    begin = end + 1;
  }
}

std::optional<std::variant<int64_t, float>> parse_csv_number(std::string_view text, DType dtype) {
  text = stripped(text);
  if (dtype == DType::kFloat32) return real(text);
  const std::optional<int64_t> value = integer(text);
  if (value && !holds_integer(dtype, *value)) return std::nullopt;
  return value;
}

}  // namespace millrace
