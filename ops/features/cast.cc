#include "millrace/ops/features/cast.h"

#include <algorithm>
#include <type_traits>

#include <fmt/format.h>

#include "millrace/ops/features/cast_values.h"

namespace millrace {
namespace {

SchemaPtr cast_schema(const Schema& input, std::string_view feature, DType to) {
  std::vector<FeatureSpec> features = input.features();
  FeatureSpec& spec = features[static_cast<size_t>(input.column(feature))];
  if (spec.dtype == DType::kBytes || to == DType::kBytes) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("cast: feature '{}' from {} to {}: bytes are no numbers", feature,
                                     to_string(spec.dtype), to_string(to)));
  }
  spec.dtype = to;
  return std::make_shared<const Schema>(std::move(features));
}

// Of different types, as what there is to convert.
template <typename From, typename To>
constexpr bool kAreNumbers = std::is_arithmetic_v<From>&& std::is_arithmetic_v<To> && !std::is_same_v<From, To>;

template <typename From, typename To>
void convert(const Column& from, Column& to, const std::string& feature, Block& block) {
  const std::span<const From> values = from.values<From>();
  const std::span<To> converted = to.mutable_values<To>();
  if (cast_values(values, converted)) return;
  for (size_t element = 0; element < from.num_elements(); ++element) {
    const std::span<const From> all = from.values<From>(element);
    const auto unfit = std::find_if(all.begin(), all.end(), [](From value) { return !fits<To>(value); });
    if (unfit == all.end()) continue;
    Error error{.code = ErrorCode::kOutOfRange,
                .message = fmt::format("cast: feature '{}' has the value {}, which {} cannot hold", feature, *unfit,
                                       to_string(DTypeOf<To>::value))};
    const auto place = static_cast<size_t>(unfit - all.begin());
    block.locate(element, place * static_cast<size_t>(block.rows_per_element) / all.size(), error);
    block.add_error(element, std::make_shared<const Error>(std::move(error)));
  }
}

}  // namespace

CastOperator::CastOperator(const SchemaPtr& schema, std::string_view feature, DType to)
    : MapOperator(cast_schema(*schema, feature, to)), column_(static_cast<size_t>(schema->column(feature))) {}

Block CastOperator::apply(Block block, BufferPool& pool) const {
  const FeatureSpec& feature = (*schema())[column_];
  const Column from = block.column(column_);
  Block::Columns columns = std::move(block.mutable_columns());
  Block converted = block.with_columns(schema(), std::move(columns));
  if (from.dtype() == feature.dtype) return converted;
  Column to = Column::like(pool, feature.dtype, from);
  visit_dtype(from.dtype(), [&]<typename From>() {
    visit_dtype(feature.dtype, [&]<typename To>() {
      if constexpr (kAreNumbers<From, To>) convert<From, To>(from, to, feature.name, converted);
    });
  });
  converted.mutable_columns()[column_] = std::move(to);
  return converted;
}

}  // namespace millrace
