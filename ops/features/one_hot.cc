#include "millrace/ops/features/one_hot.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/columnar/column_builder.h"

namespace millrace {
namespace {

using Number = std::variant<int64_t, double>;

[[noreturn]] void refuse(const std::string& why) {
  throw ErrorException(ErrorCode::kInvalidArgument, "one_hot: " + why);
}

std::string to_string(const Number& number) {
  return std::visit([](auto value) { return fmt::format("{}", value); }, number);
}

void check_value(const char* which, const Number& value, DType dtype) {
  const int64_t* integer = std::get_if<int64_t>(&value);
  const double real = integer == nullptr ? std::get<double>(value) : 0;
  const bool holds = dtype == DType::kFloat32
                         ? !std::isfinite(real) || std::abs(real) <= std::numeric_limits<float>::max()
                         : integer != nullptr && holds_integer(dtype, *integer);
  if (!holds)
    refuse(fmt::format("{} is {}, which {} cannot hold", which, to_string(value), millrace::to_string(dtype)));
}

// More of them are no vector that anybody wants, and sizes of them may not be counted any more.
constexpr int64_t kMostValues = int64_t{1} << 40;

SchemaPtr one_hot_schema(const Schema& input, const std::string& name, int64_t depth, const OneHotOptions& options) {
  std::vector<FeatureSpec> features = input.features();
  FeatureSpec& feature = features[static_cast<size_t>(input.column(name))];
  if (!is_integer(feature.dtype) || feature.is_ragged()) {
    refuse(fmt::format("feature '{}' is {} {}, needs integers that are not ragged", name,
                       millrace::to_string(feature.dtype), millrace::to_string(feature.shape)));
  }
  if (depth < 0 || depth > INT32_MAX) refuse(fmt::format("depth is {}, must be from 0 to {}", depth, INT32_MAX));
  if (options.dtype == DType::kBytes) refuse("dtype is bytes, must be of numbers");
  check_value("on_value", options.on_value, options.dtype);
  check_value("off_value", options.off_value, options.dtype);
  int64_t most_indices = depth == 0 ? INT64_MAX : kMostValues / depth;
  for (const int64_t size : feature.shape) {
    if (size > most_indices) {
      refuse(fmt::format("feature '{}' is {}, of {} values each; at most {} values are made of an element", name,
                         millrace::to_string(feature.shape), depth, kMostValues));
    }
    if (size > 0) most_indices /= size;
  }
  feature.dtype = options.dtype;
  feature.shape.push_back(depth);
  return std::make_shared<const Schema>(std::move(features));
}

struct Values {
  const OneHotOptions& options;
  int64_t depth;

  template <typename To, typename Index>
  void set(std::span<const Index> indices, std::span<To> values) const {
    const auto number = [](const Number& of) { return std::visit([](auto one) { return static_cast<To>(one); }, of); };
    const To on = number(options.on_value);
    std::fill(values.begin(), values.end(), number(options.off_value));
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] < 0 || indices[i] >= depth) continue;
      values[i * static_cast<size_t>(depth) + static_cast<size_t>(indices[i])] = on;
    }
  }
};

template <typename To, typename Index>
Column one_hot(Block& block, const Column& from, const FeatureSpec& feature, const Values& rule, BufferPool& pool) {
  ColumnBuilder builder(pool, feature);
  for (size_t element = 0; element < block.num_elements(); ++element) {
    if (!block.errors().empty() && block.error_at(element) != nullptr) {
      builder.append_nothing();
      continue;
    }
    Shape shape = from.shape(element);
    shape.push_back(rule.depth);
    if (const auto indices = static_cast<int64_t>(from.num_values(element));
        rule.depth > 0 && indices > kMostValues / rule.depth) {
      Error error{.code = ErrorCode::kWrongShape,
                  .message = fmt::format("one_hot: '{}' has {} indices, of {} values each; at most {} values are made",
                                         feature.name, indices, rule.depth, kMostValues)};
      block.locate(element, error);
      block.add_error(element, std::make_shared<const Error>(std::move(error)));
      builder.append_nothing();
      continue;
    }
    rule.set(from.values<Index>(element), builder.append_space<To>(shape));
  }
  return builder.finish();
}

}  // namespace

OneHotOperator::OneHotOperator(const SchemaPtr& input, const std::string& feature, int64_t depth,
                               const OneHotOptions& options)
    : MapOperator(one_hot_schema(*input, feature, depth, options)),
      column_(static_cast<size_t>(input->column(feature))),
      depth_(depth),
      options_(options) {}

Block OneHotOperator::apply(Block block, BufferPool& pool) const {
  const FeatureSpec& feature = (*schema())[column_];
  const Column& from = block.column(column_);
  const Values rule{options_, depth_};
  Block::Columns columns = block.columns();
  visit_dtype(feature.dtype, [&]<typename To>() {
    visit_dtype(from.dtype(), [&]<typename Index>() {
      if constexpr (std::is_arithmetic_v<To> && std::is_integral_v<Index>) {
        columns[column_] = one_hot<To, Index>(block, from, feature, rule, pool);
      }
    });
  });
  return block.with_columns(schema(), std::move(columns));
}

}  // namespace millrace
