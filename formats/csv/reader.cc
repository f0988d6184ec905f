#include "millrace/formats/csv/reader.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "millrace/formats/csv/fields.h"
#include "millrace/formats/text/byte_order_mark.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

// Ends of lines among the bytes, `\r\n` as one.
uint64_t num_line_ends(std::span<const char> bytes) {
  uint64_t count = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool is_return = bytes[i] == '\r' && (i + 1 == bytes.size() || bytes[i + 1] != '\n');
    if (is_return || bytes[i] == '\n') ++count;
  }
  return count;
}

std::vector<std::string> column_names(std::string_view header, const CsvFormat& format) {
  std::vector<CsvField> fields;
  split_csv(header, format, SIZE_MAX, fields);
  std::vector<std::string> names;
  names.reserve(fields.size());
  for (const CsvField& field : fields) names.push_back(field.unquoted());
  return names;
}

}  // namespace

void CsvFormat::check(std::string_view operator_name) const {
  const auto refuse = [&](const std::string& message) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{}: {}", operator_name, message));
  };
  if (delimiter == '\n' || delimiter == '\r' || (quotes && delimiter == '"')) {
    refuse("the delimiter must be no end of a line and no quote");
  }
  for (size_t i = 0; i < select_columns.size(); ++i) {
    if (select_columns[i] < 0 || (i > 0 && select_columns[i] <= select_columns[i - 1])) {
      refuse(fmt::format("select_columns must be ascending numbers from 0 on; number {} is {}", i, select_columns[i]));
    }
  }
}

CsvSplitter::CsvSplitter(const CsvFormat& format, uint64_t max_record_bytes, bool refuses_open_quotes)
    : format_(format), max_record_bytes_(max_record_bytes), refuses_open_quotes_(refuses_open_quotes) {
  for (const char c : {format.delimiter, '\n', '\r'}) ends_field_[static_cast<unsigned char>(c)] = true;
}

std::optional<CsvSplitter::End> CsvSplitter::find_end(std::span<const char> bytes, bool last) {
  size_t i = num_searched_;
  while (i < bytes.size()) {
    if (in_ == In::kQuoted) {
      const auto* const quote = static_cast<const char*>(std::memchr(bytes.data() + i, '"', bytes.size() - i));
      if (quote == nullptr) {
        i = bytes.size();
        break;
      }
      i = static_cast<size_t>(quote - bytes.data()) + 1;
      in_ = In::kQuote;
      continue;
    }
    if (bytes[i] == '"' && in_ == In::kQuote) {
      in_ = In::kQuoted;
      ++i;
      continue;
    }
    if (bytes[i] == '"' && in_ == In::kFieldStart && format_.quotes) {
      in_ = In::kQuoted;
      has_quotes_ = true;
      ++i;
      continue;
    }
    const size_t begin = i;
    while (i < bytes.size() && !ends_field_[static_cast<unsigned char>(bytes[i])]) ++i;
    if (i > begin) in_ = In::kField;
    if (i == bytes.size()) break;
    if (bytes[i] == format_.delimiter) {
      in_ = In::kFieldStart;
      ++i;
      continue;
    }
    if (bytes[i] == '\n') return End{i, i + 1};
    // Whether a `\n` belongs to a `\r` is seen when the next byte is there.
    if (i + 1 < bytes.size()) return End{i, bytes[i + 1] == '\n' ? i + 2 : i + 1};
    if (last) return End{i, i + 1};
    break;
  }
  num_searched_ = i;
  if (last && !bytes.empty()) return End{bytes.size(), bytes.size()};
  return std::nullopt;
}

std::unique_ptr<RecordSplitter> CsvSplitter::of_header() const {
  if (!format_.header) return nullptr;
  CsvFormat format = format_;
  format.header = false;
  return std::make_unique<CsvSplitter>(format, max_record_bytes_);
}

void CsvSplitter::expect_header(std::string_view header, const std::string& path) {
  try {
    expected_columns_ = column_names(header, format_);
    expected_in_ = path;
  } catch (const ErrorException&) {
    // The reader of that file says so.
  }
}

std::optional<Error> CsvSplitter::header_error(std::string_view header) {
  constexpr std::string_view kWhere = "the header: ";
  try {
    const std::vector<std::string> names = column_names(header, format_);
    const size_t num_shared = std::min(names.size(), expected_columns_.size());
    const auto first = expected_columns_.begin();
    const auto other = std::mismatch(first, first + static_cast<std::ptrdiff_t>(num_shared), names.begin()).first;
    const auto column = static_cast<size_t>(other - first);
    if (column == num_shared) return std::nullopt;
    return refuse_file(fmt::format("{}field {} is '{}', and '{}' in {}; values are read by their places", kWhere,
                                   column, printable(excerpt(names[column])),
                                   printable(excerpt(expected_columns_[column])), printable(expected_in_)));
  } catch (const ErrorException& e) {
    return Error{.code = ErrorCode::kParse, .message = fmt::format("{}{}", kWhere, e.error().message)};
  }
}

void CsvSplitter::begin_record() {
  num_searched_ = 0;
  in_ = In::kFieldStart;
  has_quotes_ = false;
}

std::optional<Error> CsvSplitter::cut(std::span<char> bytes, bool last, size_t max_records, FilePlace& place,
                                      CutRecords& out) {
  while (out.size() < max_records) {
    size_t mark = 0;  // bytes of one in front of the record
    if (place.offset == 0) {
      const std::string_view text(bytes.data(), bytes.size());
      if (!last && has_part_of_mark(text)) return std::nullopt;
      if (std::string other = other_encoding(text); !other.empty()) return refuse_file(std::move(other));
      if (text.starts_with(kUtf8Mark)) mark = kUtf8Mark.size();
    }
    num_searched_ = std::max(num_searched_, mark);
    const std::optional<End> end = find_end(bytes, last);
    // A file that has nothing else has no record.
    if (end && last && mark > 0 && end->used == mark) {
      place.offset += end->used;
      bytes = bytes.subspan(end->used);
      begin_record();
      is_header_ = format_.header;
      if (format_.header) return Error{.code = ErrorCode::kTruncated, .message = "the file has no header"};
      continue;
    }
    const bool is_header = is_header_ = format_.header && place.offset == 0 && !has_passed_header_;
    if ((end ? end->length : num_searched_) - mark > max_record_bytes_) {
      begin_record();
      return Error{.code = ErrorCode::kRecordTooLarge,
                   .message = fmt::format("the record that begins on line {} has more than {} bytes; is a quote not "
                                          "closed?",
                                          place.line + 1, max_record_bytes_)};
    }
    // After the check of the size, which may be seen before the end has come.
    if (refuses_open_quotes_ && end && last && in_ == In::kQuoted) {
      begin_record();
      return Error{
          .code = ErrorCode::kParse,
          .message = fmt::format("a quote in the record that begins on line {} is not closed", place.line + 1)};
    }
    if (!end) {
      if (is_header && last) return Error{.code = ErrorCode::kTruncated, .message = "the file has no header"};
      return std::nullopt;
    }
    if (is_header) {
      if (std::optional<Error> error = header_error({bytes.data() + mark, end->length - mark})) {
        begin_record();
        return error;
      }
    }
    if (!is_header) {
      out.payloads.emplace_back(bytes.data() + mark, end->length - mark);
      out.offsets.push_back(place.offset);
      out.lines.push_back(place.line);
      ++place.record;
    }
    place.line += 1 + (has_quotes_ ? num_line_ends(bytes.first(end->length)) : 0);
    place.offset += end->used;
    bytes = bytes.subspan(end->used);
    begin_record();
  }
  return std::nullopt;
}

bool CsvSplitter::pass(std::span<const char> bytes, bool last, FilePlace& place) {
  size_t length = 0;
  while (length < bytes.size() && bytes[length] != '\n' && bytes[length] != '\r') ++length;
  // Whether a `\n` belongs to a `\r` is seen when the next byte is there.
  const bool is_cut = length == bytes.size() || (bytes[length] == '\r' && length + 1 == bytes.size());
  if (is_cut && !last) {
    place.offset += length;
    return false;
  }
  const bool has_both = !is_cut && bytes[length] == '\r' && bytes[length + 1] == '\n';
  place.offset += std::min(length + (has_both ? 2 : 1), bytes.size());
  if (is_header_) {
    has_passed_header_ = true;
  } else {
    ++place.record;
  }
  ++place.line;
  return true;
}

}  // namespace millrace
