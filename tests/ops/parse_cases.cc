#include "tests/ops/parse_cases.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/ops/parse/parse_example.h"
#include "millrace/ops/parse/parse_sequence_example.h"
#include "tests/support/example_parsing.h"

namespace millrace::test {
namespace {

using nlohmann::json;

std::string from_base64(const std::string& text) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(kDigits.find(c));
    num_bits += 6;
    if (num_bits >= 8) {
      num_bits -= 8;
      bytes += static_cast<char>(bits >> num_bits);
    }
  }
  return bytes;
}

DType dtype_of(const json& spec) {
  const std::string dtype = spec.at("dtype");
  return dtype == "int64" ? DType::kInt64 : dtype == "float" ? DType::kFloat32 : DType::kBytes;
}

FeatureDefault values_of(DType stored, const json& list) {
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string> strings;
  for (const json& value : list) {
    switch (stored) {
      case DType::kInt64:
        ints.push_back(value.is_string() ? std::stoll(value.get<std::string>()) : value.get<int64_t>());
        break;
      case DType::kFloat32:
        floats.push_back(
            std::bit_cast<float>(static_cast<uint32_t>(std::stoul(value.get<std::string>(), nullptr, 16))));
        break;
      default: strings.push_back(from_base64(value.get<std::string>()));
    }
  }
  if (stored == DType::kInt64) return ints;
  if (stored == DType::kFloat32) return floats;
  return strings;
}

Partition partition_of(const json& pair) {
  const std::string kind = pair.at(0);
  if (kind == "uniform_row_length") return uniform_row_length(pair.at(1));
  const std::string key = pair.at(1);
  if (kind == "row_splits") return row_splits(key);
  if (kind == "row_lengths") return row_lengths(key);
  if (kind == "row_starts") return row_starts(key);
  if (kind == "row_limits") return row_limits(key);
  if (kind == "value_rowids") return value_rowids(key);
  throw std::runtime_error("unknown partition " + kind);
}

FeatureDescription description_of(const std::string& key, const json& spec) {
  const std::string type = spec.at("type");
  const DType stored = dtype_of(spec);
  const auto with_default = [&](const FeatureDescription& feature) {
    json values = spec.at("default");
    if (values.is_null()) return feature;
    if (!values.is_array()) values = json::array({values});
    return feature.default_value(values_of(stored, values));
  };
  const auto shape = [&] {
    Shape sizes;
    for (const json& size : spec.at("shape")) sizes.push_back(size.is_null() ? kVaries : size.get<int64_t>());
    return sizes;
  };
  if (type == "FixedLen") return with_default(fixed_len(key, shape(), stored));
  if (type == "VarLen") return var_len(key, stored);
  if (type == "FixedLenSequence") {
    return with_default(fixed_len_sequence(key, shape(), stored, {.allow_missing = spec.at("allow_missing")}));
  }
  if (type == "Ragged") {
    std::vector<Partition> partitions;
    for (const json& partition : spec.at("partitions")) partitions.push_back(partition_of(partition));
    const std::string value_key = spec.at("value_key").is_null() ? key : spec.at("value_key").get<std::string>();
    return ragged(value_key, stored, partitions, {.validate = spec.at("validate")}).named(key);
  }
  if (type == "Sparse") {
    return sparse(key, spec.at("index_keys"), spec.at("value_key"), stored, spec.at("size").get<Shape>(),
                  {.already_sorted = spec.at("already_sorted")});
  }
  throw std::runtime_error("unknown feature type " + type);
}

std::vector<FeatureDescription> descriptions_of(const json& specs, const std::string& suffix = "") {
  std::vector<FeatureDescription> features;
  for (const auto& [key, spec] : specs.items()) {
    features.push_back(description_of(key, spec));
    // A context and a feature list may have one name, and the schema wants no empty one.
    if (!suffix.empty() || key.empty()) features.back() = features.back().named(features.back().name + suffix + "_");
  }
  return features;
}

/// One case: what parses it, and what else knows the answer.
struct Case {
  std::vector<FeatureDescription> features;  // or of the context
  std::vector<FeatureDescription> feature_lists;
  bool is_sequence = false;

  explicit Case(const json& golden) : is_sequence(golden.at("kind") == "sequence_example") {
    const json& spec = golden.at("spec");
    features = descriptions_of(is_sequence ? spec.at("context") : spec);
    if (is_sequence) feature_lists = descriptions_of(spec.at("sequence"), "_steps");
  }
  std::unique_ptr<MapOperator> parser(const SchemaPtr& input) const {
    if (is_sequence) return std::make_unique<ParseSequenceExampleOperator>(input, features, feature_lists);
    return std::make_unique<ParseExampleOperator>(input, features);
  }
  ParsedRecord oracle(const std::string& record) const {
    return is_sequence ? parse_with_protobuf(features, feature_lists, record) : parse_with_protobuf(features, record);
  }
  // By the parser alone, which may not write where it should not.
  ParsedRecord alone(const std::string& record) const {
    if (is_sequence) return parse_with_millrace(SequenceExampleParser(features, feature_lists), record);
    return parse_with_millrace(ExampleParser(features), record);
  }
  // TensorFlow cuts the numbers of partitions to 32 bits without a word.
  bool has_partition_beyond_int32(const std::string& record) const {
    std::vector<FeatureDescription> of_features;
    std::vector<FeatureDescription> of_lists;
    for (const auto* all : {&features, &feature_lists}) {
      for (const FeatureDescription& feature : *all) {
        for (const Partition& partition : feature.partitions) {
          if (partition.kind == Partition::kUniformRowLength) continue;
          (all == &features ? of_features : of_lists).push_back(var_len(partition.key, DType::kInt64));
        }
      }
    }
    const ParsedRecord numbers =
        is_sequence ? parse_with_protobuf(of_features, of_lists, record) : parse_with_protobuf(of_features, record);
    for (const ParsedValue& column : numbers.values) {
      const auto& values = std::get<std::vector<int64_t>>(column.values);
      if (std::any_of(values.begin(), values.end(), [](int64_t v) { return v != static_cast<int32_t>(v); }))
        return true;
    }
    return false;
  }
};

// The records as rows, or as one batch.
Block block_of(const std::vector<std::string>& records, bool batched, BufferPool& pool) {
  Column column = Column::fixed(pool, DType::kBytes, {}, records.size());
  for (size_t i = 0; i < records.size(); ++i) column.mutable_values<std::string_view>(i)[0] = records[i];
  if (!batched) return {record_schema(), {column}, records.size()};
  const auto schema = std::make_shared<const Schema>(
      std::vector<FeatureSpec>{{.name = "record", .dtype = DType::kBytes, .shape = {kVaries}}});
  Block batch(schema, {column.grouped(records.size())}, 1);
  batch.rows_per_element = static_cast<int64_t>(records.size());
  return batch;
}

// Element `element` of what an operator gave.
ParsedRecord element_of(const Block& parsed, size_t element) {
  ParsedRecord record;
  if (const auto error = parsed.error_at(element)) {
    record.refused = error->to_string();
  } else {
    for (const Column& column : parsed.columns()) record.values.push_back(value_of(column, element));
  }
  return record;
}

// Whether the row splits of a ragged answer cut up all of the next level, and the last one all values.
bool makes_sense(const json& ragged) {
  const json& levels = ragged.at("row_splits");
  for (size_t l = 0; l < levels.size(); ++l) {
    const auto splits = levels[l].get<std::vector<int64_t>>();
    const int64_t end = l + 1 < levels.size() ? static_cast<int64_t>(levels[l + 1].size()) - 1
                                              : ragged.at("flat_shape").at(0).get<int64_t>();
    if (splits.empty() || splits.front() != 0 || splits.back() != end) return false;
    if (!std::is_sorted(splits.begin(), splits.end())) return false;
  }
  return true;
}

bool all_make_sense(const json& answers) {
  return std::all_of(answers.begin(), answers.end(),
                     [](const json& answer) { return answer.at("kind") != "ragged" || makes_sense(answer); });
}

// The sizes of a batch of ragged rows: `shape` is the column's.
std::vector<int64_t> ragged_sizes(const json& answer, const Shape& shape, size_t num_records) {
  std::vector<int64_t> sizes{static_cast<int64_t>(num_records)};
  const json& levels = answer.at("row_splits");
  size_t level = 0;
  for (size_t d = 1; d < shape.size(); ++d) {
    if (level == levels.size()) {
      // Uniform rows inside of all others are a dimension of the values.
      sizes.push_back(answer.at("flat_shape").at(d - level));
      continue;
    }
    const auto splits = levels[level++].get<std::vector<int64_t>>();
    if (shape[d] == kRagged) {
      sizes.insert(sizes.end(), splits.begin(), splits.end());
    } else {
      sizes.push_back(answer.at("uniform_row_lengths").at(level - 1));
      if (splits.size() > 1 && splits[1] != sizes.back()) throw std::runtime_error("uniform rows that are none");
    }
  }
  return sizes;
}

// Rows of these lengths, below `sizes`: their splits.
void append_splits(const std::vector<int64_t>& lengths, std::vector<int64_t>& sizes) {
  sizes.push_back(0);
  for (const int64_t length : lengths) sizes.push_back(sizes.back() + length);
}

// A batch's columns as an answer has them. `spec`: of the feature; `shape`: of its first column in the batch.
std::vector<ParsedValue> batch_of(const json& answer, const json& spec, const Shape& shape, size_t num_records) {
  const std::string kind = answer.at("kind");
  const FeatureDefault values = values_of(dtype_of(answer), answer.at("values"));
  if (kind == "dense") return {{answer.at("shape").get<std::vector<int64_t>>(), values}};
  if (kind == "ragged") return {{ragged_sizes(answer, shape, num_records), values}};
  std::vector<int64_t> sizes{static_cast<int64_t>(num_records)};
  if (kind == "varlen") {
    const auto lengths = answer.at("row_lengths").get<std::vector<int64_t>>();
    if (lengths.size() != num_records) throw std::runtime_error("row lengths of another number of records");
    append_splits(lengths, sizes);
    return {{sizes, values}};
  }
  const auto indices = answer.at("indices").get<std::vector<std::vector<int64_t>>>();
  std::vector<int64_t> of_record(num_records, 0);
  for (const auto& index : indices) ++of_record[static_cast<size_t>(index.at(0))];
  if (spec.at("type") == "Sparse") {
    Shape dense = spec.at("size").get<Shape>();
    dense.insert(dense.begin(), static_cast<int64_t>(num_records));
    if (answer.at("dense_shape").get<Shape>() != dense) throw std::runtime_error("another dense shape");
    std::vector<int64_t> flat;
    for (const auto& index : indices) flat.insert(flat.end(), index.begin() + 1, index.end());
    append_splits(of_record, sizes);
    std::vector<int64_t> with_dimensions = sizes;
    with_dimensions.push_back(static_cast<int64_t>(dense.size()) - 1);
    return {{with_dimensions, std::move(flat)}, {sizes, values}};
  }
  throw std::runtime_error("an answer of kind " + kind + " for " + spec.at("type").get<std::string>());
}

// A feature list of varying steps: steps without values are in no index, so only what is there is compared.
std::string compare_steps(const json& answer, const ParsedValue& found, size_t num_records) {
  const auto indices = answer.at("indices").get<std::vector<std::vector<int64_t>>>();
  std::vector<std::vector<int64_t>> ours;
  const int64_t* record_splits = found.sizes.data() + 1;
  const int64_t* step_splits = record_splits + num_records + 1;
  int64_t most_steps = 0;
  int64_t longest = 0;
  for (size_t r = 0; r < num_records; ++r) {
    most_steps = std::max(most_steps, record_splits[r + 1] - record_splits[r]);
    for (int64_t s = record_splits[r]; s < record_splits[r + 1]; ++s) {
      const int64_t length = step_splits[s + 1] - step_splits[s];
      longest = std::max(longest, length);
      for (int64_t i = 0; i < length; ++i) ours.push_back({static_cast<int64_t>(r), s - record_splits[r], i});
    }
  }
  const Shape dense{static_cast<int64_t>(num_records), most_steps, longest};
  if (answer.at("dense_shape").get<Shape>() != dense) return fmt::format("shape {}", fmt::join(dense, ","));
  if (ours != indices) return fmt::format("indices {}", ours);
  const ParsedValue expected{{}, values_of(dtype_of(answer), answer.at("values"))};
  const ParsedValue values{{}, found.values};
  return same(expected, values) ? "" : fmt::format("expected {}, found {}", to_string(expected), to_string(values));
}

// One map of features of a batch with its answers; `column`: the first of the map.
std::string compare_batch(const json& answers, const json& specs, const Block& batch, const ParsedRecord& found,
                          size_t num_records, size_t& column) {
  if (answers.size() != specs.size()) return "another number of features in the answer";
  for (const auto& [key, spec] : specs.items()) {
    const json& answer = answers.at(key);
    if (answer.at("dtype") != spec.at("dtype")) return key + ": another type";
    if (answer.at("kind") == "sparse" && spec.at("type") == "VarLen") {
      const std::string difference = compare_steps(answer, found.values[column++], num_records);
      if (!difference.empty()) return key + ": " + difference;
      continue;
    }
    for (const ParsedValue& expected : batch_of(answer, spec, (*batch.schema())[column].shape, num_records)) {
      const ParsedValue& value = found.values[column++];
      if (!same(expected, value)) {
        return fmt::format("{}: expected {}, found {}", key, to_string(expected), to_string(value));
      }
    }
  }
  return "";
}

std::string compare_answer(const json& golden, const Block& batch, const ParsedRecord& found, size_t num_records) {
  const json& answer = golden.at("expect");
  const json& spec = golden.at("spec");
  size_t column = 0;
  if (golden.at("kind") != "sequence_example") {
    return compare_batch(answer, spec, batch, found, num_records, column);
  }
  std::string difference = compare_batch(answer.at("context"), spec.at("context"), batch, found, num_records, column);
  if (!difference.empty()) return difference;
  const size_t first = column;
  difference = compare_batch(answer.at("feature_lists"), spec.at("sequence"), batch, found, num_records, column);
  if (!difference.empty()) return difference;
  // The steps of padded lists are those that the rows have.
  column = first;
  for (const auto& [key, list] : spec.at("sequence").items()) {
    if (list.at("type") == "FixedLenSequence") {
      const auto lengths = answer.at("lengths").at(key).get<std::vector<int64_t>>();
      const int64_t longest = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
      if (found.values[column].sizes[1] != longest) return key + ": another number of steps";
    }
    ++column;
  }
  return "";
}

// Without records there is no batch: nothing may be in the answer.
std::string compare_nothing(const json& golden) {
  const json& answer = golden.at("expect");
  for (const json& answers : golden.at("kind") == "sequence_example"
                                 ? std::vector<json>{answer.at("context"), answer.at("feature_lists")}
                                 : std::vector<json>{answer}) {
    for (const auto& [key, feature] : answers.items()) {
      if (!feature.at("values").empty()) return key + ": values without records";
    }
  }
  return "";
}

std::vector<bool> records_in(const json& golden, const char* list) {
  std::vector<bool> in(golden.at("records").size(), false);
  if (!golden.contains(list)) return in;
  for (const json& entry : golden.at(list)) {
    in[(entry.is_object() ? entry.at("record") : entry).get<size_t>()] = true;
  }
  return in;
}

std::string run(const json& golden) {
  const Case one(golden);
  const json error = golden.at("error");
  const bool by_python = !error.is_null() && error.at("by") == "python";
  // The layer above the parser also refuses records: those with unlike numbers of indices and values, and of rows.
  const std::string message = error.is_null() ? "" : error.at("message");
  const bool bad_description = by_python && message.find("Dimensions") == std::string::npos &&
                               message.find("are incompatible") == std::string::npos;
  std::unique_ptr<MapOperator> parser;
  try {
    parser = one.parser(record_schema());
  } catch (const ErrorException& refused) {
    // TensorFlow finds some bad descriptions only when they run.
    return error.is_null() || (by_python && !bad_description) ? refused.what() : "";
  }
  if (bad_description) return "expected the description to be refused: " + error.at("message").get<std::string>();

  std::vector<std::string> records;
  for (const json& record : golden.at("records")) records.push_back(from_base64(record));
  BufferPool pool;
  const Block rows = parser->apply(block_of(records, /*batched=*/false, pool), pool);
  if (rows.num_elements() != records.size()) return fmt::format("{} rows", rows.num_elements());
  if (records.empty()) return error.is_null() ? compare_nothing(golden) : "";

  // Which records must be refused; the others must give what protobuf gives.
  const std::vector<bool> fail_alone = records_in(golden, "single_errors");
  const std::vector<bool> differ = records_in(golden, "protobuf_differs");
  const std::vector<bool> crash = records_in(golden, "batch_of_one_fails");
  const bool verdict_differs = golden.contains("single_verdict_differs") && golden.at("single_verdict_differs");
  const json answer = golden.at("expect");
  const bool sensible = !error.is_null() || (one.is_sequence ? all_make_sense(answer.at("context")) &&
                                                                   all_make_sense(answer.at("feature_lists"))
                                                             : all_make_sense(answer));
  bool any_refused = false;
  for (size_t i = 0; i < records.size(); ++i) {
    const ParsedRecord found = element_of(rows, i);
    if (!same(found, one.alone(records[i]))) return fmt::format("record {}: the parser alone says otherwise", i);
    any_refused = any_refused || !found.refused.empty();
    const bool invalid = golden.contains("protobuf_accepts") && !golden.at("protobuf_accepts")[i].get<bool>();
    // Refused alone and taken in a batch: either is right, and what is taken is compared with the batch.
    if (error.is_null() && verdict_differs && fail_alone[i]) continue;
    if (invalid || differ[i] || crash[i]) {
      if (found.refused.empty()) return fmt::format("record {}: expected an error, found {}", i, to_string(found));
      continue;
    }
    // What TensorFlow's reader finds in this record is not known: it may be something else than protobuf's.
    if (!error.is_null() && refused_as_ambiguous(found)) continue;
    const ParsedRecord expected = one.oracle(records[i]);
    if (!same(found, expected)) {
      return fmt::format("record {}: expected {}, found {}", i, to_string(expected), to_string(found));
    }
    if (error.is_null() && !found.refused.empty() && sensible && !one.has_partition_beyond_int32(records[i])) {
      return fmt::format("record {}: {}", i, found.refused);
    }
  }
  if (!sensible && !any_refused) return "expected an error for row splits that cut up nothing";

  const auto batch_input = block_of(records, /*batched=*/true, pool);
  const Block batch = one.parser(batch_input.schema())->apply(batch_input, pool);
  const ParsedRecord found = element_of(batch, 0);
  if (found.refused.empty() == any_refused) {
    return fmt::format("the batch: {}, unlike its records", any_refused ? "no error" : found.refused);
  }
  return error.is_null() && !any_refused ? compare_answer(golden, batch, found, records.size()) : "";
}

}  // namespace

std::string run_parse_case(const json& golden) {
  try {
    return run(golden);
  } catch (const json::exception& bad) {
    return fmt::format("the case cannot be read: {}", bad.what());
  } catch (const std::runtime_error& bad) {
    return bad.what();
  }
}

}  // namespace millrace::test
