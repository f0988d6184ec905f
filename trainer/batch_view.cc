#include "millrace/trainer/batch_view.h"

#include <algorithm>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/columnar/schema.h"
#include "millrace/formats/error.h"

namespace millrace {
namespace {

std::string_view type_name(const FeatureView::Values& values) {
  return std::visit([]<typename T>(std::span<const T>) { return to_string(DTypeOf<std::remove_const_t<T>>::value); },
                    values);
}

}  // namespace

FeatureView::FeatureView(std::string name, Values values, std::vector<int64_t> shape)
    : name_(std::move(name)), values_(values), shape_(std::move(shape)) {
  for (size_t i = 1; i < shape_.size(); ++i) row_size_ *= shape_[i];
  const auto size = static_cast<int64_t>(std::visit([](auto span) { return span.size(); }, values_));
  if (shape_.empty() || shape_[0] * row_size_ != size) {
    throw ErrorException(ErrorCode::kWrongShape, fmt::format("feature '{}' of shape [{}] was given {} values", name_,
                                                             fmt::join(shape_, ", "), size));
  }
}

template <typename T>
std::span<const T> FeatureView::values() const {
  if (const auto* values = std::get_if<std::span<const T>>(&values_)) return *values;
  throw ErrorException(ErrorCode::kWrongShape, fmt::format("feature '{}' is {}; the model reads it as {}", name_,
                                                           type_name(values_), to_string(DTypeOf<T>::value)));
}

template std::span<const int32_t> FeatureView::values<int32_t>() const;
template std::span<const int64_t> FeatureView::values<int64_t>() const;
template std::span<const float> FeatureView::values<float>() const;
template std::span<const uint8_t> FeatureView::values<uint8_t>() const;

FeatureView FeatureView::rows(int64_t begin, int64_t rows) const {
  if (begin < 0 || rows < 0 || rows > shape_[0] || begin > shape_[0] - rows) {
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("{} rows from row {} on of feature '{}', which has {}", rows, begin, name_, shape_[0]));
  }
  FeatureView part = *this;
  part.shape_[0] = rows;
  part.values_ = std::visit(
      [&](auto values) -> Values {
        return values.subspan(static_cast<size_t>(begin * row_size_), static_cast<size_t>(rows * row_size_));
      },
      values_);
  return part;
}

BatchView::BatchView(std::vector<FeatureView> features) : features_(std::move(features)) {
  if (!features_.empty()) rows_ = features_.front().shape()[0];
  for (const FeatureView& feature : features_) {
    if (feature.shape()[0] != rows_) {
      throw ErrorException(ErrorCode::kWrongShape,
                           fmt::format("feature '{}' has {} rows, feature '{}' has {}", features_.front().name(), rows_,
                                       feature.name(), feature.shape()[0]));
    }
  }
}

const FeatureView* BatchView::find(std::string_view name) const {
  const auto found = std::ranges::find(features_, name, &FeatureView::name);
  return found == features_.end() ? nullptr : &*found;
}

const FeatureView& BatchView::feature(std::string_view name) const {
  if (const FeatureView* found = find(name)) return *found;
  std::vector<std::string_view> names;
  for (const FeatureView& feature : features_) names.push_back(feature.name());
  throw ErrorException(ErrorCode::kMissingFeature,
                       fmt::format("the batch has no feature '{}'; it has: {}", name, fmt::join(names, ", ")));
}

BatchView BatchView::slice(int64_t begin, int64_t rows) const {
  if (begin < 0 || rows < 0 || rows > rows_ || begin > rows_ - rows) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{} rows from row {} on of a batch of {}", rows, begin, rows_));
  }
  BatchView part;
  part.features_.reserve(features_.size());
  for (const FeatureView& feature : features_) part.features_.push_back(feature.rows(begin, rows));
  part.rows_ = rows;
  part.first_row_ = first_row_ + begin;
  return part;
}

}  // namespace millrace
