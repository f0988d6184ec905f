#include "ops/padded_batch.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/format.h>

namespace millrace {
namespace {

using Rule = PaddedBatchOperator::Rule;

[[noreturn]] void refuse(const std::string& message) {
  throw ErrorException(ErrorCode::kInvalidArgument, "padded_batch: " + message);
}

std::string print(const PaddingValue& value) {
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

std::string print(const PadLength& length) {
  if (length.is_fixed()) return fmt::format("{}", length.fixed_length());
  return length.multiple() == 1 ? "longest" : fmt::format("multiple of {}", length.multiple());
}

void check_length(const PadLength& length) {
  if (length.is_fixed() && length.fixed_length() < 0) {
    refuse(fmt::format("length must not be negative, not {}", length.fixed_length()));
  }
  if (!length.is_fixed() && length.multiple() < 1) {
    refuse(fmt::format("length must be a multiple of at least 1, not {}", length.multiple()));
  }
}

// The value as its feature's type has it, or nothing when it is of another kind.
std::optional<PaddingValue> converted(const FeatureSpec& feature, const PaddingValue& value) {
  switch (feature.dtype) {
    case DType::kInt32:
      if (const auto* number = std::get_if<int64_t>(&value)) {
        if (*number < std::numeric_limits<int32_t>::min() || *number > std::numeric_limits<int32_t>::max()) {
          refuse(fmt::format("value {} does not fit feature '{}' of type int32", *number, feature.name));
        }
        return value;
      }
      return std::nullopt;
    case DType::kInt64: return std::holds_alternative<int64_t>(value) ? std::optional(value) : std::nullopt;
    case DType::kFloat32:
      if (const auto* number = std::get_if<int64_t>(&value)) return static_cast<double>(*number);
      return std::holds_alternative<double>(value) ? std::optional(value) : std::nullopt;
    case DType::kBytes: return std::holds_alternative<std::string>(value) ? std::optional(value) : std::nullopt;
  }
  return std::nullopt;
}

PaddingValue default_value(DType dtype) {
  if (dtype == DType::kBytes) return std::string();
  if (dtype == DType::kFloat32) return 0.0;
  return int64_t{0};
}

std::vector<Rule> rules_of(const Schema& schema, const PaddedBatchOptions& options) {
  check_length(options.length);
  std::vector<Rule> rules;
  bool value_used = !options.value;
  for (const FeatureSpec& feature : schema.features()) {
    if (feature.is_ragged()) {
      refuse(fmt::format("feature '{}' is ragged, {}; batch keeps it so, unbatch makes rows that can be padded",
                         feature.name, to_string(feature.shape)));
    }
    Rule rule{.length = options.length, .value = default_value(feature.dtype)};
    if (options.value) {
      if (const auto value = converted(feature, *options.value)) {
        rule.value = *value;
        value_used = true;
      }
    }
    if (feature.shape.size() != 1) rule.length = PadLength::longest();
    rules.push_back(rule);
  }
  if (!value_used)
    refuse(fmt::format("value {} is of no feature's type: {}", print(*options.value), schema.to_string()));
  for (const auto& [name, padding] : options.features) {
    const auto column = static_cast<size_t>(schema.column(name));
    const FeatureSpec& feature = schema[column];
    if (padding.length) {
      check_length(*padding.length);
      if (feature.shape.size() != 1) {
        refuse(fmt::format("feature '{}' has rank {}; a length is for vectors", name, feature.shape.size()));
      }
      rules[column].length = *padding.length;
    }
    if (padding.value) {
      const auto value = converted(feature, *padding.value);
      if (!value) {
        refuse(fmt::format("value {} is not of feature '{}''s type {}", print(*padding.value), name,
                           to_string(feature.dtype)));
      }
      rules[column].value = *value;
    }
  }
  for (size_t c = 0; c < schema.size(); ++c) {
    const FeatureSpec& feature = schema[c];
    if (feature.shape.size() == 1 && rules[c].length.is_fixed() && feature.shape[0] > rules[c].length.fixed_length()) {
      refuse(fmt::format("feature '{}' has {} values, more than length {}", feature.name, feature.shape[0],
                         rules[c].length.fixed_length()));
    }
  }
  return rules;
}

SchemaPtr padded_schema(const Schema& input, const PaddedBatchOptions& options, int64_t rows) {
  const std::vector<Rule> rules = rules_of(input, options);
  std::vector<FeatureSpec> features = input.features();
  for (size_t c = 0; c < features.size(); ++c) {
    Shape& shape = features[c].shape;
    if (shape.size() == 1) {
      if (rules[c].length.is_fixed()) {
        shape[0] = rules[c].length.fixed_length();
      } else if (shape[0] != kVaries) {
        shape[0] = rules[c].length.length_for(shape[0]);
      }
    }
    shape.insert(shape.begin(), rows);
  }
  return std::make_shared<const Schema>(std::move(features));
}

template <typename T>
T padding_as(const PaddingValue& value) {
  return std::holds_alternative<double>(value) ? static_cast<T>(std::get<double>(value))
                                               : static_cast<T>(std::get<int64_t>(value));
}

// Copies an element of shape `from` into the corner of one of shape `to`, which is full of padding.
template <typename T>
void copy_into_corner(const T* source, std::span<const int64_t> from, T* target, std::span<const int64_t> to) {
  if (from.size() == 1) {
    std::copy(source, source + from[0], target);
    return;
  }
  const int64_t source_stride = num_values(Shape(from.begin() + 1, from.end()));
  const int64_t target_stride = num_values(Shape(to.begin() + 1, to.end()));
  for (int64_t i = 0; i < from[0]; ++i) {
    copy_into_corner(source + i * source_stride, from.subspan(1), target + i * target_stride, to.subspan(1));
  }
}

template <typename T>
void fill_batch(const Column& column, size_t first, size_t rows, const Shape& target, T padding, std::span<T> values) {
  const auto stride = static_cast<size_t>(num_values(target));
  for (size_t row = 0; row < rows; ++row) {
    const std::span<const T> from = column.values<T>(first + row);
    const std::span<T> to = values.subspan(row * stride, stride);
    if (target.size() == 1) {
      std::copy(from.begin(), from.end(), to.begin());
      std::fill(to.begin() + static_cast<std::ptrdiff_t>(from.size()), to.end(), padding);
    } else {
      std::fill(to.begin(), to.end(), padding);
      if (!from.empty()) copy_into_corner(from.data(), column.shape(first + row), to.data(), target);
    }
  }
}

// The shape to which a batch's elements are padded, or an error.
Shape padded_shape(const FeatureSpec& feature, const Rule& rule, const Block& elements, const Column& column,
                   size_t first, size_t rows, std::shared_ptr<const Error>& error) {
  Shape target(feature.shape.size(), 0);
  if (target.size() == 1) {
    for (size_t row = 0; row < rows; ++row) {
      const int64_t length = column.num_values(first + row);
      target[0] = std::max(target[0], length);
      if (rule.length.is_fixed() && length > rule.length.fixed_length() && error == nullptr) {
        Error long_row{.code = ErrorCode::kWrongShape,
                       .message = fmt::format("padded_batch: feature '{}' has {} values in row {} of the batch, more "
                                              "than length {}",
                                              feature.name, length, row, rule.length.fixed_length())};
        elements.locate(first + row, long_row);
        error = std::make_shared<const Error>(std::move(long_row));
      }
    }
    target[0] = rule.length.length_for(target[0]);
    return target;
  }
  for (size_t row = 0; row < rows; ++row) {
    const Shape shape = column.shape(first + row);
    for (size_t d = 0; d < shape.size(); ++d) target[d] = std::max(target[d], shape[d]);
  }
  return target;
}

struct Assembly {
  SchemaPtr input_schema;
  SchemaPtr schema;
  std::vector<Rule> rules;
  BufferPool& pool;

  Column padded(size_t c, const Block& elements, size_t rows, std::vector<std::shared_ptr<const Error>>& errors) const {
    const Column& column = elements.column(c);
    const FeatureSpec& feature = (*input_schema)[c];
    if (column.rank() == 0) return column.grouped(rows);
    const size_t num_batches = elements.num_elements() / rows;
    std::vector<Shape> shapes;  // of the batches
    bool one_shape = true;
    for (size_t b = 0; b < num_batches; ++b) {
      std::shared_ptr<const Error> error;
      Shape shape = padded_shape(feature, rules[c], elements, column, b * rows, rows, error);
      shape.insert(shape.begin(), static_cast<int64_t>(rows));
      if (error != nullptr && errors[b] == nullptr) errors[b] = error;
      shapes.push_back(std::move(shape));
      one_shape = one_shape && shapes.back() == shapes[0];
    }
    if (one_shape && column.has_fixed_shape() &&
        std::equal(shapes[0].begin() + 1, shapes[0].end(), column.fixed_shape().begin(), column.fixed_shape().end())) {
      return column.grouped(rows);
    }
    Column batches = [&] {
      if (one_shape) return Column::fixed(pool, feature.dtype, shapes[0], num_batches);
      std::vector<int64_t> offsets{0};
      std::vector<int64_t> dims;
      for (const Shape& shape : shapes) {
        offsets.push_back(offsets.back() + num_values(shape));
        dims.insert(dims.end(), shape.begin(), shape.end());
      }
      return Column::varying(pool, feature.dtype, static_cast<int>(shapes[0].size()), offsets, dims);
    }();
    std::string_view padding_bytes;
    if (feature.dtype == DType::kBytes) {
      column.holds().for_each([&](const Ref<Resource>& resource) { batches.hold(resource); });
      if (const auto& bytes = std::get<std::string>(rules[c].value); !bytes.empty()) {
        Buffer buffer = pool.allocate(bytes.size());
        std::memcpy(buffer->data(), bytes.data(), bytes.size());
        padding_bytes = {reinterpret_cast<const char*>(buffer->data()), bytes.size()};
        batches.hold(buffer);
      }
    }
    for (size_t b = 0; b < num_batches; ++b) {
      const Shape target(shapes[b].begin() + 1, shapes[b].end());
      const size_t first = b * rows;
      if (errors[b] != nullptr) {
        std::memset(batches.mutable_data(b), 0, static_cast<size_t>(batches.num_values(b)) * size_of(feature.dtype));
        continue;
      }
      const PaddingValue& value = rules[c].value;
      switch (feature.dtype) {
        case DType::kInt32:
          fill_batch(column, first, rows, target, padding_as<int32_t>(value), batches.mutable_values<int32_t>(b));
          break;
        case DType::kInt64:
          fill_batch(column, first, rows, target, padding_as<int64_t>(value), batches.mutable_values<int64_t>(b));
          break;
        case DType::kFloat32:
          fill_batch(column, first, rows, target, padding_as<float>(value), batches.mutable_values<float>(b));
          break;
        case DType::kBytes:
          fill_batch(column, first, rows, target, padding_bytes, batches.mutable_values<std::string_view>(b));
          break;
      }
    }
    return batches;
  }

  Block operator()(const Block& elements, size_t rows) const {
    const size_t num_batches = elements.num_elements() / rows;
    std::vector<std::shared_ptr<const Error>> errors(num_batches);
    Block::Columns columns;
    for (size_t c = 0; c < input_schema->size(); ++c) columns.push_back(padded(c, elements, rows, errors));
    Block batches(schema, std::move(columns), num_batches);
    for (size_t b = 0; b < num_batches; ++b) {
      if (errors[b] != nullptr) batches.add_error(b, errors[b]);
    }
    return batches;
  }
};

}  // namespace

PaddedBatchOperator::PaddedBatchOperator(SchemaPtr input, int64_t size, PaddedBatchOptions options)
    : StageOperator(padded_schema(*input, options, options.drop_remainder ? size : kVaries)),
      input_schema_(std::move(input)),
      size_(checked_batch_size("padded_batch", size)),
      options_(std::move(options)),
      rules_(rules_of(*input_schema_, options_)) {}

std::string PaddedBatchOperator::arguments() const {
  std::string text =
      fmt::format("size={}, drop_remainder={}, length={}", size_, options_.drop_remainder, print(options_.length));
  if (options_.value) text += fmt::format(", value={}", print(*options_.value));
  for (const auto& [name, padding] : options_.features) {
    if (padding.length) text += fmt::format(", {}.length={}", name, print(*padding.length));
    if (padding.value) text += fmt::format(", {}.value={}", name, print(*padding.value));
  }
  return text;
}

Cardinality PaddedBatchOperator::cardinality(std::span<const Cardinality> inputs) const {
  return batch_cardinality(inputs[0], size_, options_.drop_remainder);
}

std::unique_ptr<Stage> PaddedBatchOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  return std::make_unique<BatchStage>(input_schema_, schema(), open_input(inputs[0], context), size_,
                                      options_.drop_remainder, Assembly{input_schema_, schema(), rules_, context.pool},
                                      context);
}

}  // namespace millrace
