#include "millrace/ops/parse/parsed_records.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/columnar/block_builder.h"

namespace millrace {
namespace {

// The shape of the column after a batch of `rows` records.
Shape batched_shape(const ParsedColumn& column, int64_t rows) {
  Shape shape = column.spec.shape;
  if (!column.padded && !column.spec.has_fixed_shape()) std::replace(shape.begin(), shape.end(), kVaries, kRagged);
  shape.insert(shape.begin(), rows);
  return shape;
}

// How many values of this column each element of a block has, errors apart: one number for all, or nothing where they
// differ. Records that are a feature of their own, no batch, may be of any number in each element.
std::optional<size_t> values_in_each(const Block& block, const Column& column) {
  if (column.has_fixed_shape()) return static_cast<size_t>(column.fixed_shape()[0]);
  std::optional<size_t> count;
  for (size_t element = 0; element < block.num_elements(); ++element) {
    if (!block.errors().empty() && block.error_at(element) != nullptr) continue;
    const auto found = static_cast<size_t>(column.num_values(element));
    if (count.value_or(found) != found) return std::nullopt;
    count = found;
  }
  return count.value_or(static_cast<size_t>(block.rows_per_element));
}

template <typename T>
void fill_padded(const Column& rows, size_t first, size_t count, const T& padding, std::span<T> values) {
  const size_t stride = values.size() / count;
  for (size_t row = 0; row < count; ++row) {
    const std::span<const T> from = rows.values<T>(first + row);
    const auto rest = std::copy(from.begin(), from.end(), values.begin() + static_cast<std::ptrdiff_t>(row * stride));
    std::fill(rest, values.begin() + static_cast<std::ptrdiff_t>((row + 1) * stride), padding);
  }
}

template <typename T, typename Stored>
T padding_of(const ParsedColumn& column) {
  const auto* values = std::get_if<std::vector<Stored>>(&column.padding);
  return values == nullptr ? T() : static_cast<T>((*values)[0]);
}

// Each `rows` neighbours, which are sequences of rows of one shape, as one element padded to the longest of them.
Column padded(const ParsedColumn& column, const Column& records, size_t rows, BufferPool& pool) {
  std::vector<int64_t> offsets{0};
  std::vector<int64_t> dims;
  const Shape& row = column.spec.shape;
  const size_t num_batches = records.num_elements() / rows;
  for (size_t b = 0; b < num_batches; ++b) {
    int64_t longest = 0;
    for (size_t r = b * rows; r < (b + 1) * rows; ++r) longest = std::max(longest, records.size(r, 0));
    dims.push_back(static_cast<int64_t>(rows));
    dims.push_back(longest);
    dims.insert(dims.end(), row.begin() + 1, row.end());
    offsets.push_back(offsets.back() + static_cast<int64_t>(rows) * longest * num_values({row.begin() + 1, row.end()}));
  }
  Column batches = Column::varying(pool, records.dtype(), static_cast<int>(row.size()) + 1, offsets, dims);
  records.holds().for_each([&batches](const Ref<Resource>& resource) { batches.hold(resource); });
  std::string_view bytes;
  if (const auto* strings = std::get_if<std::vector<std::string>>(&column.padding)) {
    const Buffer buffer = pool.allocate((*strings)[0].size());
    std::memcpy(buffer->data(), (*strings)[0].data(), (*strings)[0].size());
    bytes = {reinterpret_cast<const char*>(buffer->data()), (*strings)[0].size()};
    batches.hold(buffer);
  }
  for (size_t b = 0; b < num_batches; ++b) {
    switch (records.dtype()) {
      case DType::kInt32:
        fill_padded(records, b * rows, rows, padding_of<int32_t, int64_t>(column), batches.mutable_values<int32_t>(b));
        break;
      case DType::kInt64:
        fill_padded(records, b * rows, rows, padding_of<int64_t, int64_t>(column), batches.mutable_values<int64_t>(b));
        break;
      case DType::kFloat32:
        fill_padded(records, b * rows, rows, padding_of<float, float>(column), batches.mutable_values<float>(b));
        break;
      case DType::kBytes:
        fill_padded(records, b * rows, rows, bytes, batches.mutable_values<std::string_view>(b));
        break;
      case DType::kUint8: break;  // no list has them
    }
  }
  return batches;
}

// An element of 0 rows: what varies within rows has no size either, and a ragged dimension of no rows has one split.
void append_no_rows(ColumnBuilder& column, const FeatureSpec& feature) {
  if (feature.has_fixed_shape()) return column.append_nothing();
  Shape sizes = feature.shape;
  std::replace_if(
      sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; }, 0);
  sizes[0] = 0;
  column.append_untyped(nullptr, 0, sizes);
}

/// Columns being filled, record after record: fixed shapes in their place, the others by a builder.
class ColumnWriter {
 public:
  ColumnWriter(std::span<const ParsedColumn> columns, size_t num_records, BufferPool& pool) {
    const auto num_varying = std::count_if(columns.begin(), columns.end(),
                                           [](const ParsedColumn& column) { return !column.spec.has_fixed_shape(); });
    builders_storage_.reserve(static_cast<size_t>(num_varying));  // it must not grow: `builders_` points into it
    fixed_.reserve(columns.size());
    builders_.reserve(columns.size());
    destinations_.reserve(columns.size());
    row_bytes_.reserve(columns.size());
    for (const ParsedColumn& column : columns) {
      const bool fixed = column.spec.has_fixed_shape();
      fixed_.push_back(fixed ? Column::fixed(pool, column.spec.dtype, column.spec.shape, num_records) : Column());
      builders_.push_back(fixed ? nullptr : &builders_storage_.emplace_back(pool, column.spec));
      row_bytes_.push_back(fixed ? static_cast<size_t>(num_values(column.spec.shape)) * size_of(column.spec.dtype) : 0);
    }
    assert(builders_storage_.size() == static_cast<size_t>(num_varying));
    for (size_t c = 0; c < columns.size(); ++c) {
      destinations_.push_back(builders_[c] == nullptr && num_records > 0 ? fixed_[c].mutable_data(0) : nullptr);
    }
  }

  std::span<std::byte* const> destinations() const { return destinations_; }
  std::span<ColumnBuilder* const> builders() const { return builders_; }

  void next_record() {
    for (size_t c = 0; c < destinations_.size(); ++c) destinations_[c] += row_bytes_[c];
    ++num_records_;
  }
  // Room for as many records more as vary in length like those so far, so that what they have is not copied as it
  // grows. A builder has no other way to be told than to make room for an element and to forget it.
  void expect_records(std::span<const ParsedColumn> columns, size_t count) {
    constexpr int64_t kMost = 16 << 20;  // bytes
    for (size_t c = 0; c < columns.size(); ++c) {
      const FeatureSpec& spec = columns[c].spec;
      if (builders_[c] == nullptr || spec.shape.size() != 1 || spec.is_ragged() || spec.dtype == DType::kBytes)
        continue;
      const int64_t each = builders_[c]->byte_size() / static_cast<int64_t>(num_records_) + 1;
      const int64_t bytes = std::min(each * static_cast<int64_t>(count) / 8 * 9, kMost);
      const std::array<int64_t, 1> shape = {bytes / static_cast<int64_t>(size_of(spec.dtype))};
      builders_[c]->append_space(shape[0], shape);
      builders_[c]->truncate(num_records_);
    }
  }
  size_t num_records() const { return num_records_; }
  // Nothing of meaning in the place of `count` records, and of what was begun of the first of them.
  void skip_records(size_t count) {
    if (count == 0) return;
    for (size_t c = 0; c < destinations_.size(); ++c) {
      const size_t bytes = count * row_bytes_[c];
      if (bytes > 0) std::memset(destinations_[c], 0, bytes);
      destinations_[c] += bytes;
      if (builders_[c] == nullptr) continue;
      builders_[c]->truncate(num_records_);
      for (size_t i = 0; i < count; ++i) builders_[c]->append_nothing();
    }
    num_records_ += count;
  }

  Column finish(size_t c, const KeepAliveList& holds) {
    Column column = builders_[c] != nullptr ? builders_[c]->finish() : std::move(fixed_[c]);
    if (column.dtype() == DType::kBytes) {
      holds.for_each([&column](const Ref<Resource>& resource) { column.hold(resource); });
    }
    return column;
  }

 private:
  std::vector<Column> fixed_;
  std::vector<ColumnBuilder> builders_storage_;
  std::vector<ColumnBuilder*> builders_;  // null where the shape is fixed
  std::vector<std::byte*> destinations_;
  std::vector<size_t> row_bytes_;  // 0 where it is not
  size_t num_records_ = 0;
};

// Elements of unlike numbers of records: each run of one number by itself, and of 0 an element without rows.
template <typename Parse>
Block parse_runs(const Block& block, const SchemaPtr& schema, BufferPool& pool, const Parse& parse) {
  const Column& records = block.column(0);
  BlockBuilder builder(schema, pool);
  for (size_t first = 0; first < block.num_elements();) {
    if (auto error = block.error_at(first)) {
      builder.append_error(std::move(error));
      ++first;
      continue;
    }
    const int64_t count = records.size(first, 0);
    size_t end = first + 1;
    while (end < block.num_elements() && records.size(end, 0) == count && block.error_at(end) == nullptr) ++end;
    if (count > 0) {
      builder.append_range(parse(block.slice(first, end - first)), 0, end - first);
    } else {
      for (size_t c = 0; c < schema->size(); ++c) {
        for (size_t element = first; element < end; ++element) append_no_rows(builder.column(c), (*schema)[c]);
      }
      builder.added_elements(end - first);
    }
    first = end;
  }
  Block gathered = builder.finish();
  Block parsed = block.with_columns(schema, std::move(gathered.mutable_columns()));
  for (const ElementError& entry : gathered.errors()) {
    if (parsed.error_at(entry.element) == nullptr) parsed.add_error(entry.element, entry.error);
  }
  return parsed;
}

}  // namespace

std::vector<ParsedColumn> parsed_columns(const std::vector<FeatureDescription>& features, bool of_steps) {
  std::vector<ParsedColumn> columns;
  for (const FeatureDescription& feature : features) {
    const bool padded = feature.kind == FeatureDescription::kFixedLenSequence;
    for (FeatureSpec& spec : of_steps ? feature.columns_of_steps() : feature.columns()) {
      columns.push_back({std::move(spec), padded, padded ? feature.default_values : FeatureDefault(),
                         !padded && std::holds_alternative<std::vector<std::string>>(feature.default_values)});
    }
  }
  return columns;
}

SchemaPtr parsed_schema(const Schema& input, std::span<const ParsedColumn> columns, std::string_view operator_name) {
  if (input.size() != 1 || input[0].dtype != DType::kBytes || input[0].shape.size() > 1) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{}: needs raw records, but the input is {}", operator_name, input.to_string()));
  }
  std::vector<FeatureSpec> specs;
  for (const ParsedColumn& column : columns) {
    specs.push_back(column.spec);
    if (!input[0].shape.empty()) specs.back().shape = batched_shape(column, input[0].shape[0]);
  }
  return std::make_shared<const Schema>(std::move(specs));
}

size_t rows_in_each(const Block& block, const Column& column, std::string_view operator_name) {
  const std::optional<size_t> count = values_in_each(block, column);
  // Stages keep batches of different sizes in blocks of their own.
  if (!count) {
    throw ErrorException(ErrorCode::kWrongShape,
                         fmt::format("{}: batches of different sizes in one block", operator_name));
  }
  return *count;
}

Block parse_records(const Block& block, const SchemaPtr& schema, std::span<const ParsedColumn> columns,
                    std::string_view operator_name, const ParseRecord& parse, const Ref<Resource>& parser,
                    BufferPool& pool) {
  const Column& records = block.column(0);
  const bool batched = records.rank() == 1;
  const std::optional<size_t> in_each = batched ? values_in_each(block, records) : 1;
  if (in_each.value_or(0) == 0) {
    return parse_runs(block, schema, pool, [&](const Block& run) {
      return parse_records(run, schema, columns, operator_name, parse, parser, pool);
    });
  }
  const size_t records_per_element = *in_each;
  const size_t num_records = records_per_element * block.num_elements();
  ColumnWriter writer(columns, num_records, pool);
  constexpr size_t kSample = 16;  // records that tell how long the others are

  const std::span<const std::string_view> all = records.values<std::string_view>();
  std::vector<ElementError> errors;
  for (size_t element = 0; element < block.num_elements(); ++element) {
    // The records of an error element are not looked at: there may be none.
    const bool failed = !block.errors().empty() && block.error_at(element) != nullptr;
    const auto views = failed ? std::span<const std::string_view>() : records.values<std::string_view>(element);
    size_t parsed = 0;
    while (parsed < views.size()) {
      const std::string_view* next = &views[parsed] + 1;
      if (auto error = parse(views[parsed], writer.destinations(), writer.builders(),
                             next != all.data() + all.size() ? *next : std::string_view())) {
        error->stage = operator_name;
        // Records that a row has in a feature all come from where the row does.
        if (static_cast<int64_t>(records_per_element) == block.rows_per_element) {
          block.locate(element, parsed, *error);
        } else {
          block.locate(element, *error);
        }
        errors.push_back({element, std::make_shared<const Error>(*std::move(error))});
        break;
      }
      writer.next_record();
      ++parsed;
      if (writer.num_records() == kSample && num_records > kSample)
        writer.expect_records(columns, num_records - kSample);
    }
    writer.skip_records(records_per_element - parsed);
  }
  Block::Columns made;
  made.reserve(columns.size());
  for (size_t c = 0; c < columns.size(); ++c) {
    Column column = writer.finish(c, records.holds());
    if (columns[c].views_parser) column.hold(parser);
    if (batched && columns[c].spec.has_fixed_shape()) {
      column = std::move(column).grouped(records_per_element);
    } else if (batched && columns[c].padded) {
      column = padded(columns[c], column, records_per_element, pool);
    } else if (batched) {
      column = column.grouped_ragged(records_per_element, batched_shape(columns[c], kVaries), pool);
    }
    made.push_back(std::move(column));
  }
  Block parsed = block.with_columns(schema, std::move(made));
  for (ElementError& entry : errors) parsed.add_error(entry.element, std::move(entry.error));
  return parsed;
}

}  // namespace millrace
