#include "millrace/ops/batch/padding.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "millrace/ops/batch/fill_padding.h"
#include "millrace/ops/batch/padded_column.h"

namespace millrace {
namespace {

using Rule = Padding::Rule;

[[noreturn]] void refuse(std::string_view operator_name, const std::string& message) {
  throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{}: {}", operator_name, message));
}

std::string print(const PaddingValue& value) {
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

void check_length(std::string_view name, const PadLength& length) {
  if (length.is_fixed() && length.fixed_length() < 0) {
    refuse(name, fmt::format("length must not be negative, not {}", length.fixed_length()));
  }
  if (!length.is_fixed() && length.multiple() < 1) {
    refuse(name, fmt::format("length must be a multiple of at least 1, not {}", length.multiple()));
  }
  const int64_t number = length.is_fixed() ? length.fixed_length() : length.multiple();
  if (number > kMostPaddedLength) {
    refuse(name, fmt::format("length must be at most {}, not {}", kMostPaddedLength, number));
  }
}

// The value as its feature's type has it, or nothing when it is of another kind.
std::optional<PaddingValue> converted(std::string_view name, const FeatureSpec& feature, const PaddingValue& value) {
  switch (feature.dtype) {
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUint8:
      if (const auto* number = std::get_if<int64_t>(&value)) {
        if (!holds_integer(feature.dtype, *number)) {
          refuse(name, fmt::format("value {} does not fit feature '{}' of type {}", *number, feature.name,
                                   to_string(feature.dtype)));
        }
        return value;
      }
      return std::nullopt;
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

// The dimension that a length is for: of a vector the only one, of others the outermost that varies; or nothing.
std::optional<size_t> dimension_of_length(const Shape& shape) {
  if (shape.size() == 1) return 0;
  const auto found = std::find(shape.begin(), shape.end(), kVaries);
  return found == shape.end() ? std::nullopt : std::optional(static_cast<size_t>(found - shape.begin()));
}

std::vector<Rule> rules_of(std::string_view operator_name, const Schema& schema, const PaddedBatchOptions& options) {
  check_length(operator_name, options.length);
  std::vector<Rule> rules;
  bool value_used = !options.value;
  for (const FeatureSpec& feature : schema.features()) {
    if (feature.is_ragged()) {
      refuse(operator_name,
             fmt::format("feature '{}' is ragged, {}; batch keeps it so, unbatch makes rows that can be padded",
                         feature.name, to_string(feature.shape)));
    }
    Rule rule{.length = options.length, .value = default_value(feature.dtype)};
    if (options.value) {
      if (const auto value = converted(operator_name, feature, *options.value)) {
        rule.value = *value;
        value_used = true;
      }
    }
    if (!dimension_of_length(feature.shape)) rule.length = PadLength::longest();
    rules.push_back(rule);
  }
  if (!value_used)
    refuse(operator_name,
           fmt::format("value {} is of no feature's type: {}", print(*options.value), schema.to_string()));
  for (const auto& [name, padding] : options.features) {
    const auto column = static_cast<size_t>(schema.column(name));
    const FeatureSpec& feature = schema[column];
    if (padding.length) {
      check_length(operator_name, *padding.length);
      if (!dimension_of_length(feature.shape)) {
        refuse(operator_name,
               fmt::format("feature '{}' is {}; a length is for vectors, and of others for the outermost "
                           "size that varies",
                           name, millrace::to_string(feature.shape)));
      }
      rules[column].length = *padding.length;
      rules[column].own_length = true;
    }
    if (padding.value) {
      const auto value = converted(operator_name, feature, *padding.value);
      if (!value) {
        refuse(operator_name, fmt::format("value {} is not of feature '{}''s type {}", print(*padding.value), name,
                                          to_string(feature.dtype)));
      }
      rules[column].value = *value;
    }
  }
  for (size_t c = 0; c < schema.size(); ++c) {
    const FeatureSpec& feature = schema[c];
    if (feature.shape.size() == 1 && rules[c].length.is_fixed() && feature.shape[0] > rules[c].length.fixed_length()) {
      refuse(operator_name, fmt::format("feature '{}' has {} values, more than length {}", feature.name,
                                        feature.shape[0], rules[c].length.fixed_length()));
    }
  }
  return rules;
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
      fill_padding(to.subspan(from.size()), padding);
    } else {
      fill_padding(to, padding);
      if (!from.empty()) copy_into_corner(from.data(), column.shape(first + row), to.data(), target);
    }
  }
}

// What decides the shape of one feature of a batch.
struct TargetShape {
  std::string_view operator_name;
  const FeatureSpec& feature;
  const Rule& rule;
  const std::string& hint;

  // The shape to which elements [first, first + rows) are padded, or an error.
  Shape of(const Block& elements, const Column& column, size_t first, size_t rows,
           std::shared_ptr<const Error>& error) const {
    Shape target(feature.shape.size(), 0);
    const auto refuse_row = [&](size_t row, const std::string& what, int64_t most) {
      if (error != nullptr) return;
      Error large{.code = ErrorCode::kWrongShape,
                  .message = fmt::format("{}: feature '{}' has {} in row {} of the batch, more than length {}{}",
                                         operator_name, feature.name, what, row, most, hint)};
      elements.locate(first + row, large);
      error = std::make_shared<const Error>(std::move(large));
    };
    if (target.size() == 1) {
      int64_t most = INT64_MAX;
      if (rule.length.is_fixed()) most = rule.length.fixed_length();
      if (rule.varying && feature.shape[0] == kVaries) most = *rule.varying;
      for (size_t row = 0; row < rows; ++row) {
        const int64_t length = column.num_values(first + row);
        target[0] = std::max(target[0], length);
        if (length > most) refuse_row(row, fmt::format("{} values", length), most);
      }
      target[0] = rule.length_for(feature.shape[0] == kVaries, target[0]);
      return target;
    }
    const std::optional<size_t> of_length = dimension_of_length(feature.shape);
    for (size_t d = 0; d < target.size(); ++d) {
      const bool to_varying = rule.varying && feature.shape[d] == kVaries;
      const bool to_length = !to_varying && d == of_length;
      int64_t most = INT64_MAX;
      if (to_varying) most = *rule.varying;
      if (to_length && rule.length.is_fixed()) most = rule.length.fixed_length();
      for (size_t row = 0; row < rows; ++row) {
        const int64_t size = column.size(first + row, d);
        target[d] = std::max(target[d], size);
        if (size > most) refuse_row(row, "the shape " + to_string(column.shape(first + row)), most);
      }
      if (to_varying) target[d] = most;
      if (to_length) target[d] = rule.length.length_for(target[d]);
    }
    return target;
  }
};

struct Assembly {
  std::string_view operator_name;
  std::string hint;
  SchemaPtr input_schema;
  SchemaPtr schema;
  std::vector<Rule> rules;
  BufferPool& pool;
  int64_t budget;  // of memory

  // Why a feature of a batch cannot have this shape, or null.
  std::shared_ptr<const Error> too_large(const FeatureSpec& feature, const Shape& shape) const {
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return nullptr;
    int64_t values = 1;
    for (const int64_t size : shape) {
      if (size <= kMostElementValues / values) {
        values *= size;
        continue;
      }
      return std::make_shared<const Error>(
          Error{.code = ErrorCode::kWrongShape,
                .message = fmt::format("{}: feature '{}' of a batch is padded to {}, more than {} values",
                                       operator_name, feature.name, to_string(shape), kMostElementValues)});
    }
    const int64_t bytes = values * static_cast<int64_t>(size_of(feature.dtype));
    if (bytes <= budget) return nullptr;
    return std::make_shared<const Error>(
        Error{.code = ErrorCode::kMemoryBudget,
              .message =
                  fmt::format("{}: feature '{}' of a batch is padded to {}, which takes {} bytes; the memory budget is "
                              "{}",
                              operator_name, feature.name, to_string(shape), bytes, budget)});
  }

  Column padded(size_t c, const Block& elements, size_t rows, std::vector<std::shared_ptr<const Error>>& errors) const {
    const Column& column = elements.column(c);
    const FeatureSpec& feature = (*input_schema)[c];
    if (column.rank() == 0) return column.grouped(rows);
    const size_t num_batches = elements.num_elements() / rows;
    std::vector<Shape> shapes;  // of the batches
    bool one_shape = true;
    for (size_t b = 0; b < num_batches; ++b) {
      std::shared_ptr<const Error> error;
      Shape shape = TargetShape{operator_name, feature, rules[c], hint}.of(elements, column, b * rows, rows, error);
      shape.insert(shape.begin(), static_cast<int64_t>(rows));
      if (auto large = too_large(feature, shape)) {
        if (error == nullptr) error = std::move(large);
        shape.assign(shape.size(), 0);
      }
      if (error != nullptr && errors[b] == nullptr) errors[b] = error;
      shapes.push_back(std::move(shape));
      one_shape = one_shape && shapes.back() == shapes[0];
    }
    if (one_shape && column.has_fixed_shape() &&
        std::equal(shapes[0].begin() + 1, shapes[0].end(), column.fixed_shape().begin(), column.fixed_shape().end())) {
      return column.grouped(rows);
    }
    Column batches = padded_column(pool, feature.dtype, shapes);
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
      visit_dtype(feature.dtype, [&]<typename T>() {
        T padding{};
        if constexpr (std::is_arithmetic_v<T>) {
          padding = padding_as<T>(value);
        } else {
          padding = padding_bytes;
        }
        fill_batch(column, first, rows, target, padding, batches.mutable_values<T>(b));
      });
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

WrittenLength WrittenAs<PadLength>::to(const PadLength& length) {
  if (length.is_fixed()) return {.fixed = length.fixed_length()};
  return length.multiple() == 1 ? WrittenLength{} : WrittenLength{.multiple_of = length.multiple()};
}

PadLength WrittenAs<PadLength>::from(const WrittenLength& length) {
  if (length.fixed) return PadLength::fixed(*length.fixed);
  return length.multiple_of ? PadLength::multiple_of(*length.multiple_of) : PadLength::longest();
}

std::string text_of_argument(const PadLength& length, bool /*all*/) {
  if (length.is_fixed()) return fmt::format("fixed {}", length.fixed_length());
  return length.multiple() == 1 ? "longest" : fmt::format("multiple of {}", length.multiple());
}

Padding::Padding(std::string_view operator_name, SchemaPtr input, PaddedBatchOptions options)
    : operator_name_(operator_name),
      input_(std::move(input)),
      options_(std::move(options)),
      rules_(rules_of(operator_name, *input_, options_)) {}

Padding Padding::with_varying(int64_t size, std::string hint) const {
  Padding other = *this;
  other.hint_ = std::move(hint);
  for (Rule& rule : other.rules_) {
    if (!rule.own_length) rule.varying = size;
  }
  return other;
}

SchemaPtr Padding::schema(int64_t rows) const {
  std::vector<FeatureSpec> features = input_->features();
  for (size_t c = 0; c < features.size(); ++c) {
    Shape& shape = features[c].shape;
    const Rule& rule = rules_[c];
    if (const auto d = dimension_of_length(shape)) {
      if (rule.length.is_fixed()) {
        shape[*d] = rule.length.fixed_length();
      } else if (shape[*d] != kVaries) {
        shape[*d] = rule.length.length_for(shape[*d]);
      }
    }
    if (rule.varying) std::replace(shape.begin(), shape.end(), kVaries, *rule.varying);
    shape.insert(shape.begin(), rows);
  }
  return std::make_shared<const Schema>(std::move(features));
}

BatchStage::Assemble Padding::assemble(SchemaPtr batches, const StageContext& context) const {
  return Assembly{operator_name_, hint_, input_, std::move(batches), rules_, context.pool, context.memory_budget()};
}

}  // namespace millrace
