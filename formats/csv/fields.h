#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "millrace/formats/columnar/schema.h"
#include "millrace/formats/csv/format.h"

namespace millrace {

/// One field of a CSV record.
struct CsvField {
  std::string_view text = {};  ///< between its quotes, where it has some
  bool has_quotes = false;     ///< two quotes in the text stand for one

  /// The text with one quote for each two.
  [[nodiscard]] std::string unquoted() const;
};

/// The fields of a record, at least one, and of those the first `most`; `fields` keeps its memory. Gives how many there
/// are. Throws `kParse` where a quote stands in a field
/// that does not begin with one, something stands after a closing quote, or a quote is not closed, naming the field.
size_t split_csv(std::string_view record, const CsvFormat& format, size_t most, std::vector<CsvField>& fields);

/// The number that a field says, as TensorFlow reads it: white space around it is nothing, integers are decimal, floats
/// may be hexadecimal, `inf` or `nan`; a float that is too large becomes infinite. Nothing when it is no such number,
/// or an integer that its type cannot hold. `dtype` is no kBytes; integers come as int64.
[[nodiscard]] std::optional<std::variant<int64_t, float>> parse_csv_number(std::string_view text, DType dtype);

}  // namespace millrace
