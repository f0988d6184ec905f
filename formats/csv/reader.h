#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "millrace/formats/csv/format.h"
#include "millrace/formats/records/text_splitter.h"

namespace millrace {

/// The records of a CSV file: each ends with `\n`, `\r\n` or `\r` that is not inside quotes, the last one also with the
/// end of the file. Quotes count where a field begins with one, and up to the next that is not doubled; whether what
/// stands between is a good record is for whoever splits it to say. An empty line is a record. Lines are counted. The
/// mark of byte order (U+FEFF in UTF-8) at the beginning of a file is no part of its first record; that of UTF-16 or
/// UTF-32 is the error `parse`. A file that should have a header and has none is the error `truncated`; bad quotes in a
/// header are the error `parse`, and so is a column whose name is not the one expected there.
class CsvSplitter final : public TextSplitter {
 public:
  /// Longer records are the error `record_too_large`. `refuses_open_quotes`: a quote that is not closed before the end
  /// of the file is the error `parse`; otherwise all from there on is a record.
  explicit CsvSplitter(const CsvFormat& format, uint64_t max_record_bytes = uint64_t{64} << 20,
                       bool refuses_open_quotes = false);
  std::optional<Error> cut(std::span<char> bytes, bool last, size_t max_records, FilePlace& place,
                           CutRecords& out) override;
  /// After the line on which the record begins: a quote that is wrong may have swallowed the lines that follow.
  bool pass(std::span<const char> bytes, bool last, FilePlace& place) override;
  std::unique_ptr<RecordSplitter> of_header() const override;
  void expect_header(std::string_view header, const std::string& path) override;

 private:
  enum class In {
    kFieldStart,
    kField,   ///< that is not quoted, or goes on after its quotes
    kQuoted,  ///< between quotes
    kQuote,   ///< after a quote between quotes: the end of them, or the first of two
  };
  struct End {
    size_t length;  ///< of the record
    size_t used;    ///< with its end
  };
  std::optional<Error> header_error(std::string_view header);
  std::optional<End> find_end(std::span<const char> bytes, bool last);
  void begin_record();

  const CsvFormat format_;
  const uint64_t max_record_bytes_;
  const bool refuses_open_quotes_;
  std::array<bool, 256> ends_field_{};
  // Of a record whose end is not there yet.
  size_t num_searched_ = 0;
  In in_ = In::kFieldStart;
  bool has_quotes_ = false;
  bool is_header_ = false;  // what is cut, or was refused
  bool has_passed_header_ = false;
  std::vector<std::string> expected_columns_;  // of the file expected_in_
  std::string expected_in_;
};

}  // namespace millrace
