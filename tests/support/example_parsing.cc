#include "tests/support/example_parsing.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/stubs/logging.h>

#include "millrace/formats/columnar/column_builder.h"
#include "tests/support/example_messages.h"

namespace millrace::test {
namespace {

std::vector<uint32_t> bits_of(const std::vector<float>& floats) {
  std::vector<uint32_t> bits;
  for (const float value : floats) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

bool same_values(const FeatureDefault& a, const FeatureDefault& b) {
  const auto* floats_a = std::get_if<std::vector<float>>(&a);
  const auto* floats_b = std::get_if<std::vector<float>>(&b);
  if (floats_a != nullptr && floats_b != nullptr) return bits_of(*floats_a) == bits_of(*floats_b);
  return a == b;
}

std::string describe(const FeatureDefault& values) {
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&values)) return fmt::format("{}", *ints);
  if (const auto* floats = std::get_if<std::vector<float>>(&values)) return fmt::format("bits {}", bits_of(*floats));
  if (const auto* strings = std::get_if<std::vector<std::string>>(&values)) return fmt::format("{}", *strings);
  return "nothing";
}

template <typename Parser>
ParsedRecord parse(const Parser& parser, std::string_view record) {
  constexpr size_t kGuard = 64;
  constexpr auto kUntouched = std::byte{0xa5};
  // A copy that ends where the record ends, so that sanitizers see every read beyond it.
  const std::vector<char> exact(record.begin(), record.end());
  const std::vector<FeatureSpec>& columns = parser.columns();
  BufferPool pool;
  std::vector<std::vector<std::byte>> buffers;
  std::vector<ColumnBuilder> builders;
  builders.reserve(columns.size());
  std::vector<std::byte*> destinations;
  std::vector<ColumnBuilder*> builder_of;
  for (const FeatureSpec& column : columns) {
    const bool fixed = column.has_fixed_shape();
    buffers.emplace_back(
        fixed ? static_cast<size_t>(num_values(column.shape)) * size_of(column.dtype) + kGuard : kGuard, kUntouched);
    destinations.push_back(buffers.back().data());
    builder_of.push_back(fixed ? nullptr : &builders.emplace_back(pool, column));
  }
  ParsedRecord parsed;
  if (auto error = parser.parse({exact.data(), exact.size()}, pool, destinations, builder_of)) {
    parsed.refused = error->to_string();
  }
  for (size_t c = 0; c < columns.size(); ++c) {
    if (!std::all_of(buffers[c].end() - kGuard, buffers[c].end(), [](std::byte b) { return b == kUntouched; })) {
      parsed.refused = "the parser wrote beyond the end of " + columns[c].name;
    }
  }
  if (!parsed.refused.empty()) return parsed;
  for (size_t c = 0; c < columns.size(); ++c) {
    if (builder_of[c] != nullptr) {
      const Column column = builder_of[c]->finish();
      if (column.num_elements() != 1) return {.refused = columns[c].name + " has no one element", .values = {}};
      parsed.values.push_back(value_of(column, 0));
      continue;
    }
    Column column = Column::fixed(pool, columns[c].dtype, columns[c].shape, 1);
    if (buffers[c].size() > kGuard) std::memcpy(column.mutable_data(0), buffers[c].data(), buffers[c].size() - kGuard);
    parsed.values.push_back(value_of(column, 0));
  }
  return parsed;
}

// What the oracle does not take.
struct Refused {
  std::string why;
};

// The list of one feature, or nothing.
struct OracleList {
  std::optional<DType> kind;
  FeatureDefault values;

  size_t size() const {
    return std::visit(
        []<typename T>(const T& all) -> size_t {
          if constexpr (std::is_same_v<T, std::monostate>) {
            return 0;
          } else {
            return all.size();
          }
        },
        values);
  }
};

FeatureDefault no_values(DType stored) {
  if (stored == DType::kInt64) return std::vector<int64_t>();
  if (stored == DType::kFloat32) return std::vector<float>();
  return std::vector<std::string>();
}

OracleList list_of(const example::Feature& feature, DType stored) {
  OracleList list;
  switch (feature.kind_case()) {
    case example::Feature::kInt64List: {
      const auto& values = feature.int64_list().value();
      list = {DType::kInt64, std::vector<int64_t>(values.begin(), values.end())};
      break;
    }
    case example::Feature::kFloatList: {
      const auto& values = feature.float_list().value();
      list = {DType::kFloat32, std::vector<float>(values.begin(), values.end())};
      break;
    }
    case example::Feature::kBytesList: {
      const auto& values = feature.bytes_list().value();
      list = {DType::kBytes, std::vector<std::string>(values.begin(), values.end())};
      break;
    }
    default: return {std::nullopt, no_values(stored)};
  }
  if (*list.kind != stored) throw Refused{"another kind"};
  return list;
}

void check_cast(const FeatureDescription& feature, const FeatureDefault& values) {
  if (feature.dtype != DType::kInt32) return;
  for (const int64_t value : std::get<std::vector<int64_t>>(values)) {
    if (value != static_cast<int32_t>(value)) throw Refused{"a value that does not fit int32"};
  }
}

// A list in lists in lists: `leaves` values, or rows.
struct Nested {
  int64_t leaves = 0;
  std::vector<Nested> rows;
};

std::vector<Nested> leaves(size_t count) { return std::vector<Nested>(count, Nested{.leaves = 1, .rows = {}}); }

// The items cut into rows as one partition says.
std::vector<Nested> cut(const std::vector<Nested>& items, const Partition& partition,
                        const std::vector<int64_t>& numbers) {
  const auto count = static_cast<int64_t>(items.size());
  std::vector<int64_t> lengths;
  switch (partition.kind) {
    case Partition::kUniformRowLength:
      if (count % partition.row_length != 0) throw Refused{"rows that are not uniform"};
      lengths.assign(static_cast<size_t>(count / partition.row_length), partition.row_length);
      break;
    case Partition::kRowLengths: lengths = numbers; break;
    case Partition::kRowSplits:
      for (size_t i = 1; i < numbers.size(); ++i) lengths.push_back(numbers[i] - (i == 1 ? 0 : numbers[i - 1]));
      break;
    case Partition::kRowLimits:
      for (size_t i = 0; i < numbers.size(); ++i) lengths.push_back(numbers[i] - (i == 0 ? 0 : numbers[i - 1]));
      break;
    case Partition::kRowStarts:
      if (!numbers.empty() && numbers[0] != 0) throw Refused{"rows that do not start at 0"};
      for (size_t i = 0; i < numbers.size(); ++i) {
        lengths.push_back((i + 1 < numbers.size() ? numbers[i + 1] : count) - numbers[i]);
      }
      break;
    case Partition::kValueRowids:
      for (const int64_t row : numbers) {
        if (row < 0 || row >= count + (1 << 20)) throw Refused{"a row id that makes no sense"};
        if (row >= static_cast<int64_t>(lengths.size())) lengths.resize(static_cast<size_t>(row) + 1);
        ++lengths[static_cast<size_t>(row)];
      }
  }
  std::vector<Nested> rows;
  size_t next = 0;
  for (const int64_t length : lengths) {
    if (length < 0 || length > count - static_cast<int64_t>(next)) throw Refused{"rows that do not fit"};
    const auto from = items.begin() + static_cast<std::ptrdiff_t>(next);
    rows.push_back({.leaves = 0, .rows = {from, from + length}});
    next += static_cast<size_t>(length);
  }
  if (next != items.size()) throw Refused{"rows that leave something over"};
  return rows;
}

// As `Column::sizes`: what is after the first dimension, level by level.
void append_sizes(const std::vector<Nested>& level, const Shape& shape, size_t dimension, std::vector<int64_t>& sizes) {
  if (dimension == shape.size()) return;
  std::vector<Nested> below;
  if (shape[dimension] == kRagged) {
    sizes.push_back(0);
    for (const Nested& row : level) {
      sizes.push_back(sizes.back() + static_cast<int64_t>(row.rows.size()));
      below.insert(below.end(), row.rows.begin(), row.rows.end());
    }
  } else {
    sizes.push_back(shape[dimension]);
    for (const Nested& row : level) below.insert(below.end(), row.rows.begin(), row.rows.end());
  }
  append_sizes(below, shape, dimension + 1, sizes);
}

std::vector<int64_t> sizes_of(const std::vector<Nested>& rows, const Shape& shape) {
  std::vector<int64_t> sizes{static_cast<int64_t>(rows.size())};
  append_sizes(rows, shape, 1, sizes);
  return sizes;
}

// The rows of a ragged feature: `list` finds the list of a key.
std::vector<Nested> rows_of(const FeatureDescription& feature, size_t count,
                            const std::function<OracleList(const std::string&, DType)>& list) {
  std::vector<Nested> rows = leaves(count);
  for (size_t p = feature.partitions.size(); p-- > 0;) {
    const Partition& partition = feature.partitions[p];
    std::vector<int64_t> numbers;
    if (partition.kind != Partition::kUniformRowLength) {
      numbers = std::get<std::vector<int64_t>>(list(partition.key, DType::kInt64).values);
      const bool ascend = std::is_sorted(numbers.begin(), numbers.end());
      if (feature.validate && partition.kind == Partition::kValueRowids && !ascend) throw Refused{"descending row ids"};
    }
    rows = cut(rows, partition, numbers);
  }
  return rows;
}

FeatureDefault permuted(const FeatureDefault& values, const std::vector<size_t>& order) {
  return std::visit(
      [&]<typename T>(const T& all) -> FeatureDefault {
        if constexpr (std::is_same_v<T, std::monostate>) {
          return all;
        } else {
          T moved;
          for (const size_t i : order) moved.push_back(all[i]);
          return moved;
        }
      },
      values);
}

using FindList = std::function<OracleList(const std::string&, DType)>;

void append_sparse(const FeatureDescription& feature, const FindList& find, std::vector<ParsedValue>& columns) {
  const OracleList values = find(feature.key, feature.stored);
  check_cast(feature, values.values);
  std::vector<std::vector<int64_t>> indices(values.size());
  for (const std::string& key : feature.index_keys) {
    const auto numbers = std::get<std::vector<int64_t>>(find(key, DType::kInt64).values);
    if (numbers.size() != values.size()) throw Refused{"another number of indices"};
    for (size_t i = 0; i < numbers.size(); ++i) indices[i].push_back(numbers[i]);
  }
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (!feature.already_sorted) {
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return indices[a] < indices[b]; });
  }
  std::vector<int64_t> flat;
  for (size_t i = 0; i < order.size(); ++i) {
    const std::vector<int64_t>& index = indices[order[i]];
    if (feature.validate && i > 0 && index <= indices[order[i - 1]]) throw Refused{"an index out of order"};
    for (size_t d = 0; d < index.size(); ++d) {
      if (feature.validate && (index[d] < 0 || index[d] >= feature.size[d])) throw Refused{"an index outside"};
      flat.push_back(index[d]);
    }
  }
  const auto count = static_cast<int64_t>(values.size());
  columns.push_back({{count, static_cast<int64_t>(feature.index_keys.size())}, std::move(flat)});
  columns.push_back({{count}, permuted(values.values, order)});
}

// The columns of a feature of an Example or a context.
void append_columns(const FeatureDescription& feature, const FindList& find, std::vector<ParsedValue>& columns) {
  if (feature.kind == FeatureDescription::kSparse) {
    append_sparse(feature, find, columns);
    return;
  }
  OracleList list = find(feature.key, feature.stored);
  const auto count = static_cast<int64_t>(list.size());
  switch (feature.kind) {
    case FeatureDescription::kFixedLen:
      if (!list.kind) {
        if (std::holds_alternative<std::monostate>(feature.default_values)) throw Refused{"missing " + feature.key};
        list.values = feature.default_values;
      } else if (count != num_values(feature.shape)) {
        throw Refused{"another count in " + feature.key};
      }
      columns.push_back({feature.shape, list.values});
      break;
    case FeatureDescription::kVarLen: columns.push_back({{count}, list.values}); break;
    case FeatureDescription::kFixedLenSequence: {
      if (count % num_values(feature.shape) != 0) throw Refused{"values that make no rows"};
      Shape shape = feature.shape;
      shape.insert(shape.begin(), count / num_values(feature.shape));
      columns.push_back({shape, list.values});
      break;
    }
    default: {
      const std::vector<Nested> rows = rows_of(feature, list.size(), find);
      columns.push_back({sizes_of(rows, feature.columns()[0].shape), list.values});
    }
  }
  check_cast(feature, list.values);
}

void append_values(FeatureDefault& all, const FeatureDefault& more) {
  std::visit(
      [&]<typename T>(T& to) {
        if constexpr (!std::is_same_v<T, std::monostate>) {
          const T& from = std::get<T>(more);
          to.insert(to.end(), from.begin(), from.end());
        }
      },
      all);
}

// The column of a feature list.
ParsedValue steps_of(const FeatureDescription& feature, const example::SequenceExample& message) {
  const auto& lists = message.feature_lists().feature_list();
  const auto steps = [&lists](const std::string& key) {
    const auto found = lists.find(key);
    return found == lists.end() ? example::FeatureList() : found->second;
  };
  const bool is_dense = feature.kind == FeatureDescription::kFixedLenSequence;
  if (is_dense && !feature.allow_missing && lists.find(feature.key) == lists.end()) throw Refused{"a missing list"};
  const example::FeatureList of_values = steps(feature.key);
  for (const Partition& partition : feature.partitions) {
    if (partition.kind == Partition::kUniformRowLength) continue;
    if (steps(partition.key).feature_size() != of_values.feature_size()) throw Refused{"steps that are not aligned"};
  }
  ParsedValue value{{}, no_values(feature.stored)};
  std::vector<Nested> rows;
  for (int s = 0; s < of_values.feature_size(); ++s) {
    const OracleList list = list_of(of_values.feature(s), feature.stored);
    if (is_dense && static_cast<int64_t>(list.size()) != num_values(feature.shape)) throw Refused{"a step's shape"};
    append_values(value.values, list.values);
    rows.push_back({.leaves = 0, .rows = rows_of(feature, list.size(), [&](const std::string& key, DType stored) {
                                   return list_of(steps(key).feature(s), stored);
                                 })});
  }
  check_cast(feature, value.values);
  value.sizes =
      is_dense ? std::vector<int64_t>{of_values.feature_size()} : sizes_of(rows, feature.columns_of_steps()[0].shape);
  if (is_dense) value.sizes.insert(value.sizes.end(), feature.shape.begin(), feature.shape.end());
  return value;
}

}  // namespace

bool same(const ParsedValue& a, const ParsedValue& b) { return a.sizes == b.sizes && same_values(a.values, b.values); }

bool same(const ParsedRecord& a, const ParsedRecord& b) {
  if (a.refused.empty() != b.refused.empty()) return false;
  if (!a.refused.empty()) return true;
  return std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(),
                    [](const ParsedValue& x, const ParsedValue& y) { return same(x, y); });
}

std::string to_string(const ParsedValue& value) {
  // A vector is as long as its values.
  if (value.sizes.size() == 1) return describe(value.values);
  return fmt::format("{} of sizes {}", describe(value.values), value.sizes);
}

std::string to_string(const ParsedRecord& parsed) {
  if (!parsed.refused.empty()) return "refused: " + parsed.refused;
  std::string text;
  for (const ParsedValue& value : parsed.values) text += to_string(value) + " ";
  return text;
}

ParsedValue value_of(const Column& column, size_t element) {
  ParsedValue value;
  if (column.is_ragged()) {
    const auto sizes = column.sizes(element);
    value.sizes.assign(sizes.begin(), sizes.end());
  } else {
    value.sizes = column.shape(element);
  }
  const auto read = [&]<typename To, typename From>(To, From) {
    std::vector<To> values;
    for (const From& v : column.values<From>(element)) values.emplace_back(v);
    value.values = std::move(values);
  };
  switch (column.dtype()) {
    case DType::kInt32: read(int64_t{}, int32_t{}); break;
    case DType::kInt64: read(int64_t{}, int64_t{}); break;
    case DType::kFloat32: read(float{}, float{}); break;
    case DType::kBytes: read(std::string{}, std::string_view{}); break;
    case DType::kUint8: read(int64_t{}, uint8_t{}); break;
  }
  return value;
}

ParsedRecord parse_with_millrace(const ExampleParser& parser, std::string_view record) { return parse(parser, record); }

ParsedRecord parse_with_millrace(const SequenceExampleParser& parser, std::string_view record) {
  return parse(parser, record);
}

ParsedRecord parse_with_protobuf(std::span<const FeatureDescription> features, std::string_view record) {
  const google::protobuf::LogSilencer silencer;
  example::Example message;
  example::ExampleEntries entries;
  const int size = static_cast<int>(record.size());
  if (!message.ParseFromArray(record.data(), size) || !entries.ParseFromArray(record.data(), size)) {
    return {.refused = "protobuf refuses it", .values = {}};
  }
  std::map<std::string, const example::Feature*> last;
  std::map<std::string, const example::Feature*> last_with_list;
  for (const auto& entry : entries.features().feature()) {
    last[entry.key()] = &entry.value();
    if (entry.value().kind_case() != example::Feature::KIND_NOT_SET) last_with_list[entry.key()] = &entry.value();
  }
  ParsedRecord parsed;
  try {
    for (const FeatureDescription& feature : features) {
      const auto& found = feature.kind == FeatureDescription::kFixedLen ? last_with_list : last;
      append_columns(
          feature,
          [&found](const std::string& key, DType stored) {
            const auto at = found.find(key);
            return list_of(at == found.end() ? example::Feature::default_instance() : *at->second, stored);
          },
          parsed.values);
    }
  } catch (const Refused& refused) {
    return {.refused = refused.why, .values = {}};
  }
  return parsed;
}

ParsedRecord parse_with_protobuf(std::span<const FeatureDescription> context,
                                 std::span<const FeatureDescription> feature_lists, std::string_view record) {
  const google::protobuf::LogSilencer silencer;
  example::SequenceExample message;
  if (!message.ParseFromArray(record.data(), static_cast<int>(record.size()))) {
    return {.refused = "protobuf refuses it", .values = {}};
  }
  ParsedRecord parsed;
  try {
    for (const FeatureDescription& feature : context) {
      append_columns(
          feature,
          [&message, &feature](const std::string& key, DType stored) {
            const auto at = message.context().feature().find(key);
            OracleList list = list_of(
                at == message.context().feature().end() ? example::Feature::default_instance() : at->second, stored);
            // TensorFlow does not miss a list that would have no values.
            if (!list.kind && feature.kind == FeatureDescription::kFixedLen && num_values(feature.shape) == 0 &&
                std::holds_alternative<std::monostate>(feature.default_values)) {
              list = {.kind = stored, .values = no_values(stored)};
            }
            return list;
          },
          parsed.values);
    }
    for (const FeatureDescription& feature : feature_lists) parsed.values.push_back(steps_of(feature, message));
  } catch (const Refused& refused) {
    return {.refused = refused.why, .values = {}};
  }
  return parsed;
}

bool refused_as_ambiguous(const ParsedRecord& parsed) { return parsed.refused.find("TensorFlow") != std::string::npos; }

std::vector<nlohmann::json> read_json_lines(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) lines.push_back(nlohmann::json::parse(line));
  }
  return lines;
}

}  // namespace millrace::test
