#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/csv/fields.h"
#include "millrace/pipeline/dataset.h"

namespace millrace {

/// A record of a `CsvTable`.
class CsvRow {
 public:
  /// `names`: of the columns. `line`: on which the record begins, from 1. Throws `kParse` where it has not a field for
  /// each, or bad quotes.
  CsvRow(std::string_view record, int64_t line, const std::vector<std::string>& names);

  /// A field. Throws `kParse` where it is not UTF-8.
  [[nodiscard]] std::string text(size_t column) const;
  /// Throws `kParse`: `line 7, column 'Y': ` and why.
  [[noreturn]] void refuse(size_t column, const std::string& why) const;

 private:
  const int64_t line_;
  const std::vector<std::string>& names_;
  std::vector<CsvField> fields_;
};

/// A CSV whose first record has the names of its columns: RFC 4180, fields with quotes may have line ends in them, a
/// mark of byte order (UTF-8) is no part of it.
///
///     const CsvTable table("questions.csv");
///     const Dataset titles = table.rows({{"title", DType::kBytes, {}}},
///                                       [title = table.column("Title")](const CsvRow& row, RowWriter& out) {
///                                         out.set("title", row.text(title));
///                                       });
///
/// Immutable; any thread.
class CsvTable {
 public:
  /// Reads the header. Throws as the pipeline does, `kParse` for bad quotes and a name that is not UTF-8, and
  /// `kInvalidArgument` when a name is there twice.
  explicit CsvTable(std::string path);

  /// Throws `kInvalidArgument` that says which columns there are.
  [[nodiscard]] size_t column(const std::string& name) const;
  [[nodiscard]] std::optional<size_t> find(const std::string& name) const;
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] const std::string& path() const { return path_; }

  /// Calls `take` with each record in order. What it throws becomes an error of the file.
  void for_each(const std::function<void(const CsvRow&)>& take) const;
  /// The records in order, as features that `read` writes. What it throws becomes the error of the record, with file
  /// and place.
  [[nodiscard]] Dataset rows(std::vector<FeatureSpec> features,
                             std::function<void(const CsvRow&, RowWriter&)> read) const;

 private:
  std::string path_;
  std::string file_;  // where it lies, of a folder in a bucket
  std::vector<std::string> names_;
};

/// A field as a CSV has it: in quotes where it must be.
[[nodiscard]] std::string csv_field(std::string_view text);
/// A record with its end.
[[nodiscard]] std::string csv_record(const std::vector<std::string>& fields);
/// A CSV of numbers, `[rows, columns]`, as float32: in front of each row its id, in front of all the names.
[[nodiscard]] std::string csv_of_numbers(const std::string& id_name, const std::vector<std::string>& names,
                                         const std::vector<std::string>& ids, std::span<const double> numbers);

}  // namespace millrace
