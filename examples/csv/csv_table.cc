#include "examples/csv/csv_table.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

constexpr size_t kAll = SIZE_MAX;

}  // namespace

CsvRow::CsvRow(std::string_view record, int64_t line, const std::vector<std::string>& names)
    : line_(line), names_(names) {
  size_t found = 0;
  try {
    found = split_csv(record, {}, kAll, fields_);
  } catch (const ErrorException& e) {
    throw ErrorException(e.error().code, fmt::format("line {}: {}", line_, e.error().message));
  }
  if (found == names.size()) return;
  throw ErrorException(ErrorCode::kParse,
                       fmt::format("line {}: {} fields, and {} in the header", line_, found, names.size()));
}

std::string CsvRow::text(size_t column) const {
  std::string text = fields_.at(column).unquoted();
  if (!is_valid_utf8(text)) refuse(column, "not UTF-8");
  return text;
}

void CsvRow::refuse(size_t column, const std::string& why) const {
  throw ErrorException(ErrorCode::kParse, fmt::format("line {}, column '{}': {}", line_,
                                                      printable(excerpt(names_.at(column))), printable(why)));
}

CsvTable::CsvTable(std::string path) : path_(std::move(path)), file_(located({path_}).front()) {
  Pipeline pipeline = Dataset::csv_records(Shards::files({file_})).take(1).start({.threads = 1});
  std::optional<Batch> header;
  try {
    header = pipeline.next();
  } catch (const ErrorException& e) {
    if (e.error().code != ErrorCode::kIo) throw;
    // Whoever gives one CSV knows of no shards, and nothing has been read of it yet.
    throw ErrorException({.code = e.error().code, .message = "the CSV: " + e.error().message, .shard = path_});
  }
  if (!header) throw ErrorException({.code = ErrorCode::kTruncated, .message = "the CSV is empty", .shard = path_});
  const auto refuse = [&](const std::string& why) {
    throw ErrorException({.code = ErrorCode::kParse, .message = "the header, line 1: " + why, .shard = path_});
  };
  std::vector<CsvField> fields;
  try {
    split_csv(header->values<std::string_view>("record")[0], {}, kAll, fields);
  } catch (const ErrorException& e) {
    refuse(e.error().message);
  }
  for (const CsvField& field : fields) {
    std::string name = field.unquoted();
    if (!is_valid_utf8(name)) refuse(fmt::format("the name of column {} is not UTF-8", names_.size() + 1));
    if (find(name)) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("{} has two columns '{}'", path_, printable(excerpt(name))));
    }
    names_.push_back(std::move(name));
  }
}

std::optional<size_t> CsvTable::find(const std::string& name) const {
  const auto found = std::ranges::find(names_, name);
  return found == names_.end() ? std::nullopt : std::optional(static_cast<size_t>(found - names_.begin()));
}

size_t CsvTable::column(const std::string& name) const {
  if (const auto found = find(name)) return *found;
  throw ErrorException(ErrorCode::kInvalidArgument,
                       fmt::format("{} has no column '{}'; its columns are {}", path_, name,
                                   printable(excerpt(fmt::format("{}", fmt::join(names_, ", ")), 300))));
}

void CsvTable::for_each(const std::function<void(const CsvRow&)>& take) const {
  Pipeline records = Dataset::csv_records(Shards::files({file_}), {.header = true}).start({.threads = 1});
  while (const std::optional<Batch> record = records.next()) {
    try {
      take(CsvRow(record->values<std::string_view>("record")[0], record->values<int64_t>("line")[0] + 1, names_));
    } catch (const ErrorException& e) {
      throw ErrorException({.code = e.error().code, .message = e.error().message, .shard = path_});
    }
  }
}

Dataset CsvTable::rows(std::vector<FeatureSpec> features, std::function<void(const CsvRow&, RowWriter&)> read) const {
  return Dataset::csv_records(Shards::files({file_}), {.header = true})
      .map({.name = "csv_row",
            .writes = std::move(features),
            .function =
                [names = names_, read = std::move(read)](const RowView& row, RowWriter& out) {
                  read(CsvRow(row.value<std::string_view>("record"), row.value<int64_t>("line") + 1, names), out);
                },
            .keep_others = false});
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

std::string csv_record(const std::vector<std::string>& fields) {
  std::string record;
  for (const std::string& field : fields) record += csv_field(field) + ',';
  record.back() = '\n';
  return record;
}

std::string csv_of_numbers(const std::string& id_name, const std::vector<std::string>& names,
                           const std::vector<std::string>& ids, std::span<const double> numbers) {
  std::vector<std::string> fields = {id_name};
  fields.insert(fields.end(), names.begin(), names.end());
  std::string csv = csv_record(fields);
  for (size_t row = 0; row < ids.size(); ++row) {
    fields[0] = ids[row];
    for (size_t i = 0; i < names.size(); ++i) {
      fields[i + 1] = fmt::format("{}", static_cast<float>(numbers[row * names.size() + i]));
    }
    csv += csv_record(fields);
  }
  return csv;
}

}  // namespace millrace
