#include "ops/rows.h"

#include <algorithm>
#include <type_traits>

#include <fmt/format.h>

#include "formats/columnar/block_builder.h"

namespace millrace {
namespace {

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};
template <typename T>
using InColumn = std::conditional_t<std::is_same_v<T, std::string>, std::string_view, T>;

size_t num_rows(const MemoryFeature& feature) {
  return std::visit([](const auto& rows) { return rows.size(); }, feature.values);
}

FeatureSpec spec_of(const MemoryFeature& feature) {
  return std::visit(
      [&](const auto& rows) -> FeatureSpec {
        using Row = typename std::decay_t<decltype(rows)>::value_type;
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

class RowsStage final : public Stage {
 public:
  RowsStage(const Block& all, int64_t epoch) : all_(all), epoch_(epoch) {}

  Poll next(Block& out) override {
    if (next_ == all_.num_elements()) return Poll::kEnd;
    const size_t count = std::min(kBlockElements, all_.num_elements() - next_);
    out = all_.slice(next_, count);
    out.epoch = epoch_;
    next_ += count;
    return Poll::kBlock;
  }

 private:
  Block all_;
  int64_t epoch_;
  size_t next_ = 0;
};

}  // namespace

RowsOperator::RowsOperator(const std::vector<MemoryFeature>& features) : StageOperator(schema_of(features)) {
  BufferPool pool;
  BlockBuilder builder(schema(), pool);
  for (size_t f = 0; f < features.size(); ++f) {
    ColumnBuilder& column = builder.column(f);
    std::visit(
        [&](const auto& rows) {
          using Row = typename std::decay_t<decltype(rows)>::value_type;
          for (const auto& row : rows) {
            if constexpr (IsVector<Row>::value) {
              const int64_t length = static_cast<int64_t>(row.size());
              append_row(column, std::span<const typename Row::value_type>(row), {&length, 1});
            } else {
              append_row(column, std::span<const Row>(&row, 1), {});
            }
          }
        },
        features[f].values);
  }
  builder.added_elements(num_rows(features[0]));
  all_ = builder.finish();
}

std::string RowsOperator::arguments() const { return fmt::format("rows={}", all_.num_elements()); }

Cardinality RowsOperator::cardinality(std::span<const Cardinality>) const {
  return Cardinality::known(static_cast<int64_t>(all_.num_elements()));
}

std::unique_ptr<Stage> RowsOperator::open(std::vector<OpenStage>, const StageContext& context) const {
  return std::make_unique<RowsStage>(all_, context.iteration.epoch);
}

}  // namespace millrace
