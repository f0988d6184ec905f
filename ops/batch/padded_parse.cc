#include "millrace/ops/batch/padded_parse.h"

#include <algorithm>

#include "millrace/ops/batch/fill_padding.h"
#include "millrace/ops/batch/padded_column.h"

namespace millrace {

/// The packed lists of some records, and how many values each has; feature by feature.
struct PaddedParse::Lists {
  Lists(size_t records, size_t features)
      : num_records(records), bytes(records * features), counts(records * features) {}
  size_t place(size_t feature, size_t record) const { return feature * num_records + record; }

  size_t num_records;
  std::vector<std::string_view> bytes;
  std::vector<int64_t> counts;
};

PaddedParse::PaddedParse(const ExampleParser& parser, std::span<const Padding::Rule> rules, SchemaPtr schema,
                         BufferPool& pool, int64_t budget)
    : parser_(parser), rules_(rules.begin(), rules.end()), schema_(std::move(schema)), pool_(pool), budget_(budget) {}

bool PaddedParse::takes(const ExampleParser& parser) {
  return parser.packs_lists() && std::all_of(parser.columns().begin(), parser.columns().end(),
                                             [](const FeatureSpec& column) { return column.shape.size() <= 1; });
}

std::optional<std::vector<int64_t>> PaddedParse::lengths_of(size_t feature, const Lists& lists, size_t rows) const {
  const FeatureSpec& column = parser_.columns()[feature];
  std::vector<int64_t> lengths;
  lengths.reserve(lists.num_records / rows);
  for (size_t first = 0; first < lists.num_records; first += rows) {
    const int64_t* counts = lists.counts.data() + lists.place(feature, first);
    const int64_t longest = *std::max_element(counts, counts + rows);
    const int64_t length = column.shape.empty() ? 1 : rules_[feature].length_for(!column.has_fixed_shape(), longest);
    const int64_t most = std::min(kMostElementValues, budget_ / static_cast<int64_t>(size_of(column.dtype)));
    if (longest > length || length > most / static_cast<int64_t>(rows)) return std::nullopt;
    lengths.push_back(length);
  }
  return lengths;
}

template <typename T>
std::optional<Column> PaddedParse::decode(size_t feature, const Lists& lists, size_t rows,
                                          std::span<const int64_t> lengths) const {
  const FeatureSpec& spec = parser_.columns()[feature];
  std::vector<Shape> shapes;
  shapes.reserve(lengths.size());
  const auto height = static_cast<int64_t>(rows);
  for (const int64_t length : lengths) {
    shapes.push_back(spec.shape.empty() ? Shape{height} : Shape{height, length});
  }
  Column column = padded_column(pool_, spec.dtype, shapes);
  const auto padding = padding_as<T>(rules_[feature].value);
  for (size_t batch = 0; batch < lengths.size(); ++batch) {
    std::span<T> room = column.mutable_values<T>(batch);
    const auto length = static_cast<size_t>(lengths[batch]);
    for (size_t row = 0; row < rows; ++row) {
      const size_t place = lists.place(feature, batch * rows + row);
      const auto count = static_cast<size_t>(lists.counts[place]);
      const std::span<T> values = room.subspan(row * length, length);
      if (!parser_.read_packed(feature, lists.bytes[place], lists.counts[place], lengths[batch],
                               reinterpret_cast<std::byte*>(values.data()))) {
        return std::nullopt;
      }
      fill_padding(values.subspan(count), padding);
    }
  }
  return column;
}

std::optional<Block> PaddedParse::operator()(const Block& records, size_t rows) const {
  const size_t num_features = parser_.columns().size();
  const std::span<const std::string_view> all = records.column(0).values<std::string_view>();
  constexpr size_t kMostLists = 1 << 20;  // 24 MB that no pool counts
  if (!records.errors().empty() || all.empty() || all.size() * num_features > kMostLists) return std::nullopt;
  Lists lists(all.size(), num_features);
  std::vector<std::string_view> of_record(num_features);
  constexpr size_t kAhead = 4;  // rows whose memory is on its way
  for (size_t r = 0; r < all.size(); ++r) {
    const std::string_view next = r + kAhead < all.size() ? all[r + kAhead] : std::string_view();
    if (!parser_.find_packed(all[r], of_record, next)) return std::nullopt;
    for (size_t f = 0; f < num_features; ++f) {
      const FeatureSpec& column = parser_.columns()[f];
      const int64_t count = parser_.count_packed(f, of_record[f]);
      if (column.has_fixed_shape() && count != num_values(column.shape)) return std::nullopt;
      lists.bytes[lists.place(f, r)] = of_record[f];
      lists.counts[lists.place(f, r)] = count;
    }
  }
  Block::Columns columns;
  columns.reserve(num_features);
  for (size_t f = 0; f < num_features; ++f) {
    const auto lengths = lengths_of(f, lists, rows);
    if (!lengths) return std::nullopt;
    std::optional<Column> column;
    switch (parser_.columns()[f].dtype) {
      case DType::kInt32: column = decode<int32_t>(f, lists, rows, *lengths); break;
      case DType::kInt64: column = decode<int64_t>(f, lists, rows, *lengths); break;
      case DType::kFloat32: column = decode<float>(f, lists, rows, *lengths); break;
      case DType::kBytes:
      case DType::kUint8: break;
    }
    if (!column) return std::nullopt;
    columns.push_back(*std::move(column));
  }
  return Block(schema_, std::move(columns), all.size() / rows);
}

}  // namespace millrace
