#include "millrace/ops/parse/parse_csv.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/columnar/column_builder.h"
#include "millrace/formats/records/skipped_region.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(std::string message) {
  throw ErrorException(ErrorCode::kInvalidArgument, "parse_csv: " + std::move(message));
}

// One bytes scalar, and where records come from files of CSV, the line of each.
size_t checked_record(const Schema& input) {
  const int record = input.find("record");
  const FeatureSpec* const spec = record < 0 ? nullptr : &input[static_cast<size_t>(record)];
  if (spec == nullptr || spec->dtype != DType::kBytes || !spec->shape.empty() ||
      input.size() > (input.find("line") < 0 ? 1 : 2)) {
    refuse(fmt::format("needs records, one bytes value `record` in each element, found {}", input.to_string()));
  }
  return static_cast<size_t>(record);
}

SchemaPtr schema_of(const std::vector<CsvColumn>& columns) {
  if (columns.empty()) refuse("needs at least one column");
  std::vector<FeatureSpec> features;
  for (const CsvColumn& column : columns) {
    features.push_back({.name = column.name, .dtype = column.dtype, .shape = {}});
    if (!column.default_value) continue;
    const auto* const integer = std::get_if<int64_t>(&*column.default_value);
    const bool fits = column.dtype == DType::kBytes     ? std::holds_alternative<std::string>(*column.default_value)
                      : column.dtype == DType::kFloat32 ? std::holds_alternative<double>(*column.default_value)
                                                        : integer != nullptr;
    if (!fits || (integer != nullptr && !holds_integer(column.dtype, *integer))) {
      refuse(fmt::format("the default value of column '{}' is no {}", column.name, to_string(column.dtype)));
    }
  }
  return std::make_shared<const Schema>(std::move(features));
}

// As errors show it.
std::string shown(std::string_view text) {
  constexpr size_t kMost = 40;
  std::string cut(text.substr(0, kMost));
  for (char& c : cut) {
    if (static_cast<unsigned char>(c) < ' ') c = '?';
  }
  return fmt::format("'{}{}'", cut, text.size() > kMost ? "…" : "");
}

// Makes an error the note that its record was left out.
void leave_out(std::string_view record, int64_t epoch, Error& error) {
  const auto begin = static_cast<uint64_t>(std::max<int64_t>(error.offset, 0));
  error.skipped = std::make_shared<const SkippedRegion>(
      SkippedRegion{.shard = error.shard,
                    .begin = begin,
                    .end = begin + record.size(),
                    .first_record = static_cast<uint64_t>(std::max<int64_t>(error.record, 0)),
                    .records = 1,
                    .epoch = epoch,
                    .code = error.code,
                    .reason = error.message});
}

/// One column being filled.
class Values {
 public:
  Values(const CsvColumn& column, size_t num_elements, BufferPool& pool)
      : column_(column), texts_(pool, {.name = column.name, .dtype = DType::kBytes, .shape = {}}) {
    if (column.dtype != DType::kBytes) {
      numbers_ = Column::fixed(pool, column.dtype, {}, num_elements);
    } else if (column.default_value) {
      const auto& text = std::get<std::string>(*column.default_value);
      const Buffer buffer = pool.allocate(text.size());
      std::memcpy(buffer->data(), text.data(), text.size());
      texts_.hold(buffer);
      default_text_ = {reinterpret_cast<const char*>(buffer->data()), text.size()};
    }
  }

  void set_default(size_t element) {
    switch (column_.dtype) {
      case DType::kBytes: texts_.append_view(default_text_); break;
      case DType::kFloat32: put(element, static_cast<float>(std::get<double>(*column_.default_value))); break;
      case DType::kInt64: put(element, std::get<int64_t>(*column_.default_value)); break;
      case DType::kInt32: put(element, static_cast<int32_t>(std::get<int64_t>(*column_.default_value))); break;
      case DType::kUint8: put(element, static_cast<uint8_t>(std::get<int64_t>(*column_.default_value))); break;
    }
  }

  // False when the field is no such number.
  bool set(size_t element, const CsvField& field) {
    if (column_.dtype == DType::kBytes) {
      texts_.append_view(field.has_quotes ? texts_.store(field.unquoted()) : field.text);
      return true;
    }
    const auto number = field.has_quotes ? std::nullopt : parse_csv_number(field.text, column_.dtype);
    if (!number) return false;
    switch (column_.dtype) {
      case DType::kFloat32: put(element, std::get<float>(*number)); break;
      case DType::kInt64: put(element, std::get<int64_t>(*number)); break;
      case DType::kUint8: put(element, static_cast<uint8_t>(std::get<int64_t>(*number))); break;
      default: put(element, static_cast<int32_t>(std::get<int64_t>(*number))); break;
    }
    return true;
  }

  // Nothing of meaning, instead of what was set if anything was.
  void set_nothing(size_t element) {
    if (column_.dtype == DType::kBytes) {
      texts_.truncate(element);
      texts_.append_nothing();
    } else {
      std::memset(numbers_.mutable_data(element), 0, size_of(column_.dtype));
    }
  }

  Column finish(const Column& records) {
    if (column_.dtype != DType::kBytes) return std::move(numbers_);
    Column texts = texts_.finish();
    records.holds().for_each([&texts](const Ref<Resource>& resource) { texts.hold(resource); });
    return texts;
  }

 private:
  template <typename T>
  void put(size_t element, T value) {
    numbers_.mutable_values<T>(element)[0] = value;
  }

  const CsvColumn& column_;
  Column numbers_;
  ColumnBuilder texts_;
  std::string_view default_text_;
};

}  // namespace

ParseCsvOperator::ParseCsvOperator(const SchemaPtr& input, std::vector<CsvColumn> columns, CsvFormat format,
                                   DamagePolicy::Action damage)
    : MapOperator(schema_of(columns)),
      columns_(std::move(columns)),
      format_(std::move(format)),
      damage_(damage),
      record_(checked_record(*input)),
      line_(input->find("line")) {
  format_.check(name());
  if (format_.header) refuse("header is of files: csv or csv_records leaves it out");
  if (!format_.select_columns.empty() && format_.select_columns.size() != columns_.size()) {
    refuse(fmt::format("select_columns has {} numbers for {} columns", format_.select_columns.size(), columns_.size()));
  }
  const bool has_lines = line_ >= 0 && (*input)[static_cast<size_t>(line_)].dtype == DType::kInt64 &&
                         (*input)[static_cast<size_t>(line_)].shape.empty();
  if (!has_lines) line_ = -1;
}

Cardinality ParseCsvOperator::cardinality(std::span<const Cardinality> inputs) const {
  return damage_ == DamagePolicy::kSkip && inputs[0].is_known() ? Cardinality::unknown() : inputs[0];
}

Block ParseCsvOperator::apply(Block block, BufferPool& pool) const {
  const Column& records = block.column(record_);
  std::vector<Values> values;
  values.reserve(columns_.size());
  for (const CsvColumn& column : columns_) values.emplace_back(column, block.num_elements(), pool);
  std::vector<CsvField> fields;
  std::vector<ElementError> errors;
  const auto parse = [&](size_t element) {
    const size_t needed =
        format_.select_columns.empty() ? columns_.size() : static_cast<size_t>(format_.select_columns.back()) + 1;
    const size_t found = split_csv(records.values<std::string_view>(element)[0], format_, needed, fields);
    if (found < needed || (format_.select_columns.empty() && found > needed)) {
      throw ErrorException(ErrorCode::kParse, fmt::format("the record has {} fields, {}{} are needed", found,
                                                          format_.select_columns.empty() ? "" : "at least ", needed));
    }
    for (size_t c = 0; c < columns_.size(); ++c) {
      const size_t number = format_.select_columns.empty() ? c : static_cast<size_t>(format_.select_columns[c]);
      const CsvField& field = fields[number];
      if (field.text.empty() || (field.has_quotes ? field.unquoted() : field.text) == format_.missing) {
        if (!columns_[c].default_value) {
          throw ErrorException(ErrorCode::kMissingFeature, fmt::format("column '{}' (field {}) is missing, and has no "
                                                                       "default value",
                                                                       columns_[c].name, number));
        }
        values[c].set_default(element);
      } else if (!values[c].set(element, field)) {
        throw ErrorException(ErrorCode::kParse, fmt::format("column '{}' (field {}): {} is no {}", columns_[c].name,
                                                            number, shown(field.text), to_string(columns_[c].dtype)));
      }
    }
  };
  for (size_t element = 0; element < block.num_elements(); ++element) {
    const bool is_error = !block.errors().empty() && block.error_at(element) != nullptr;
    if (!is_error) {
      try {
        parse(element);
        continue;
      } catch (const ErrorException& failed) {
        Error error = failed.error();
        if (line_ >= 0) {
          const int64_t line = block.column(static_cast<size_t>(line_)).values<int64_t>(element)[0];
          error.message = fmt::format("line {}: {}", line + 1, error.message);
        }
        error.stage = name();
        block.locate(element, error);
        if (damage_ == DamagePolicy::kSkip) leave_out(records.values<std::string_view>(element)[0], block.epoch, error);
        errors.push_back({element, std::make_shared<const Error>(std::move(error))});
      }
    }
    for (Values& column : values) column.set_nothing(element);
  }
  Block::Columns columns;
  columns.reserve(columns_.size());
  for (Values& column : values) columns.push_back(column.finish(records));
  Block parsed = block.with_columns(schema(), std::move(columns));
  for (ElementError& entry : errors) parsed.add_error(entry.element, std::move(entry.error));
  return parsed;
}

}  // namespace millrace
