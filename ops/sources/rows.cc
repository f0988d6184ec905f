#include "millrace/ops/sources/rows.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/ops/place_checks.h"

namespace millrace {
namespace {

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};
template <typename T>
struct ValueOf {
  using Type = T;
};
template <typename T>
struct ValueOf<std::vector<T>> {
  using Type = T;
};
template <typename T>
using InColumn = std::conditional_t<std::is_same_v<T, std::string>, std::string_view, T>;

[[noreturn]] void refuse(const MemoryFeature& feature, const std::string& why) {
  throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("rows: feature '{}' {}", feature.name, why));
}

// Values of an element, as far as they do not vary.
int64_t stride_of(const MemoryFeature& feature) {
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t stride = 1;
  for (const int64_t size : *feature.shape) {
    if (size == kVaries) continue;
    if (size < 0 || (stride > 0 && size > kMost / stride)) {
      refuse(feature, fmt::format("has the shape {}, whose sizes cannot be", to_string(*feature.shape)));
    }
    stride *= size;
  }
  return stride;
}

// The shape of an element of so many values.
Shape shape_of(const MemoryFeature& feature, int64_t num_values) {
  const int64_t stride = stride_of(feature);
  Shape shape = *feature.shape;
  const auto varies = std::find(shape.begin(), shape.end(), kVaries);
  const bool fits = varies == shape.end() ? num_values == stride : stride > 0 && num_values % stride == 0;
  if (!fits || std::count(shape.begin(), shape.end(), kVaries) > 1) {
    refuse(feature, fmt::format("has an element of {} values, which its shape {} cannot have", num_values,
                                to_string(*feature.shape)));
  }
  if (varies != shape.end()) *varies = num_values / stride;
  return shape;
}

// Elements of the flat values of a feature with a shape.
size_t num_flat_rows(const MemoryFeature& feature, size_t num_values) {
  const auto stride = static_cast<size_t>(stride_of(feature));
  const bool varies = std::count(feature.shape->begin(), feature.shape->end(), kVaries) > 0;
  if (varies || stride == 0 || num_values % stride != 0) {
    refuse(feature, fmt::format("has {} values in one vector, which its shape {} does not cut into elements",
                                num_values, to_string(*feature.shape)));
  }
  return num_values / stride;
}

size_t num_rows(const MemoryFeature& feature) {
  return std::visit(
      [&](const auto& rows) {
        using Row = typename std::decay_t<decltype(rows)>::value_type;
        return IsVector<Row>::value || !feature.shape ? rows.size() : num_flat_rows(feature, rows.size());
      },
      feature.values);
}

FeatureSpec spec_of(const MemoryFeature& feature) {
  return std::visit(
      [&](const auto& rows) -> FeatureSpec {
        using Row = typename std::decay_t<decltype(rows)>::value_type;
        if (feature.shape) {
          using Value = typename ValueOf<Row>::Type;
          return {.name = feature.name, .dtype = DTypeOf<InColumn<Value>>::value, .shape = *feature.shape};
        }
        if constexpr (IsVector<Row>::value) {
          const bool fixed = !rows.empty() && std::all_of(rows.begin(), rows.end(),
                                                          [&](const Row& row) { return row.size() == rows[0].size(); });
          return {.name = feature.name,
                  .dtype = DTypeOf<InColumn<typename Row::value_type>>::value,
                  .shape = {fixed ? static_cast<int64_t>(rows[0].size()) : kVaries}};
        } else {
          return {.name = feature.name, .dtype = DTypeOf<InColumn<Row>>::value, .shape = {}};
        }
      },
      feature.values);
}

SchemaPtr schema_of(const std::vector<MemoryFeature>& features) {
  if (features.empty()) throw ErrorException(ErrorCode::kInvalidArgument, "rows: needs at least one feature");
  std::vector<FeatureSpec> specs;
  for (const MemoryFeature& feature : features) {
    if (num_rows(feature) != num_rows(features[0])) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("rows: feature '{}' has {} rows, '{}' has {}", features[0].name,
                                       num_rows(features[0]), feature.name, num_rows(feature)));
    }
    specs.push_back(spec_of(feature));
  }
  return std::make_shared<const Schema>(std::move(specs));
}

template <typename T>
void append_row(ColumnBuilder& column, std::span<const T> row, std::span<const int64_t> shape) {
  auto values = column.append_space<InColumn<T>>(shape);
  for (size_t i = 0; i < row.size(); ++i) {
    if constexpr (std::is_same_v<T, std::string>) {
      values[i] = column.store(row[i]);
    } else {
      values[i] = row[i];
    }
  }
}

// Of all values with the shapes of the rows.
uint64_t digest_of(const Block& rows) {
  uint64_t digest = rows.num_elements();
  const auto mix = [&digest](const void* bytes, size_t size) {
    const std::array<uint64_t, 2> pair = {digest, XXH3_64bits(bytes, size)};
    digest = XXH3_64bits(pair.data(), sizeof pair);
  };
  for (const Column& column : rows.columns()) {
    for (size_t row = 0; row < rows.num_elements(); ++row) {
      const Shape shape = column.shape(row);
      mix(shape.data(), shape.size() * sizeof(shape[0]));
      if (column.dtype() == DType::kBytes) {
        for (const std::string_view value : column.values<std::string_view>(row)) mix(value.data(), value.size());
      } else {
        mix(column.data(row), static_cast<size_t>(column.num_values(row)) * size_of(column.dtype()));
      }
    }
  }
  return digest;
}

class RowsStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "rows";

  RowsStage(const Block& all, const StageContext& context) : all_(all), epoch_(context.iteration.epoch) {
    if (context.state == nullptr) return;
    const int64_t given = numbers_of(*context.state, kKind, 1)[0];
    next_ = static_cast<size_t>(place_within(kKind, given, static_cast<int64_t>(all_.num_elements())));
  }

  Poll next(Block& out) override {
    if (next_ == all_.num_elements()) return Poll::kEnd;
    const size_t count = std::min(kBlockElements, all_.num_elements() - next_);
    out = all_.slice(next_, count);
    out.epoch = epoch_;
    out.cursor = make_cursor(kKind, {static_cast<int64_t>(next_)});
    next_ += count;
    return Poll::kBlock;
  }

 private:
  Block all_;
  int64_t epoch_;
  size_t next_ = 0;
};

template <typename T>
constexpr bool kIsRow = false;
template <typename T>
constexpr bool kIsRow<std::vector<T>> = true;

template <typename T, typename Flat>
auto& values_of(Flat& feature) {
  if constexpr (std::is_integral_v<T>)
    return feature.integers;
  else if constexpr (std::is_same_v<T, float>)
    return feature.reals;
  else
    return feature.texts;
}

// The feature with values of type T that `flat` stands for.
template <typename T>
MemoryFeature memory_feature(const FlatFeature& flat) {
  const auto& from = values_of<T>(flat);
  if (flat.integers.size() + flat.reals.size() + flat.texts.size() != from.size()) {
    refuse_argument(fmt::format("'{}' has values of another type than its dtype {}", flat.name, to_string(flat.dtype)));
  }
  for (const auto& value : from) {
    if constexpr (std::is_integral_v<T>) {
      if (!holds_integer(flat.dtype, value)) {
        refuse_argument(fmt::format("{} of '{}' is no {}", value, flat.name, to_string(flat.dtype)));
      }
    }
  }
  if (!flat.row_lengths) return {flat.name, std::vector<T>(from.begin(), from.end()), flat.shape};
  std::vector<std::vector<T>> rows;
  auto at = from.begin();
  bool fits = true;
  for (const int64_t length : *flat.row_lengths) {
    fits = fits && length >= 0 && length <= from.end() - at;
    if (!fits) break;
    rows.emplace_back(at, at + length);
    at += length;
  }
  if (!fits || at != from.end()) {
    refuse_argument(fmt::format("the row lengths of '{}' do not make up its {} values", flat.name, from.size()));
  }
  return {flat.name, std::move(rows), flat.shape};
}

}  // namespace

FlatFeature WrittenAs<MemoryFeature>::to(const MemoryFeature& feature) {
  FlatFeature flat{.name = feature.name, .shape = feature.shape};
  std::visit(
      [&flat]<typename T>(const std::vector<T>& rows) {
        flat.dtype = DTypeOf<InColumn<typename ValueOf<T>::Type>>::value;
        if constexpr (kIsRow<T>) {
          flat.row_lengths.emplace();
          for (const T& row : rows) {
            flat.row_lengths->push_back(static_cast<int64_t>(row.size()));
            auto& values = values_of<typename T::value_type>(flat);
            values.insert(values.end(), row.begin(), row.end());
          }
        } else {
          values_of<T>(flat).assign(rows.begin(), rows.end());
        }
      },
      feature.values);
  return flat;
}

MemoryFeature WrittenAs<MemoryFeature>::from(const FlatFeature& feature) {
  return visit_dtype(feature.dtype, [&]<typename T>() {
    return memory_feature<std::conditional_t<std::is_arithmetic_v<T>, T, std::string>>(feature);
  });
}

RowsOperator::RowsOperator(const std::vector<MemoryFeature>& features) : StageOperator(schema_of(features)) {
  BufferPool pool;
  BlockBuilder builder(schema(), pool);
  for (size_t f = 0; f < features.size(); ++f) {
    ColumnBuilder& column = builder.column(f);
    std::visit(
        [&](const auto& rows) {
          using Row = typename std::decay_t<decltype(rows)>::value_type;
          if constexpr (IsVector<Row>::value) {
            for (const Row& row : rows) {
              const auto length = static_cast<int64_t>(row.size());
              append_row(column, std::span<const typename Row::value_type>(row),
                         features[f].shape ? shape_of(features[f], length) : Shape{length});
            }
          } else {
            const size_t count = num_rows(features[f]);
            const size_t stride = count == 0 ? 0 : rows.size() / count;
            for (size_t row = 0; row < count; ++row) {
              append_row(column, std::span<const Row>(rows).subspan(row * stride, stride),
                         features[f].shape.value_or(Shape{}));
            }
          }
        },
        features[f].values);
  }
  builder.added_elements(num_rows(features[0]));
  all_ = builder.finish();
  content_digest_ = digest_of(all_);
}

Cardinality RowsOperator::cardinality(std::span<const Cardinality>) const {
  return Cardinality::known(static_cast<int64_t>(all_.num_elements()));
}

std::unique_ptr<Stage> RowsOperator::open(std::vector<OpenStage>, const StageContext& context) const {
  return std::make_unique<RowsStage>(all_, context);
}

}  // namespace millrace
