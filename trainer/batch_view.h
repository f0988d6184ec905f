#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace millrace {

/// The values of one dense feature in a run of rows: `[rows, ...]`, row major. It owns nothing.
class FeatureView {
 public:
  using Values = std::variant<std::span<const int32_t>, std::span<const int64_t>, std::span<const float>,
                              std::span<const uint8_t>>;

  /// `shape` starts with the number of rows. Throws `kWrongShape` when it does not multiply to the number of values.
  FeatureView(std::string name, Values values, std::vector<int64_t> shape);

  const std::string& name() const { return name_; }
  /// Starts with the number of rows.
  std::span<const int64_t> shape() const { return shape_; }
  /// Elements in one row: 1 for a feature of shape `[rows]`.
  int64_t row_size() const { return row_size_; }

  /// The values; T is int32_t, int64_t, float or uint8_t. Throws `kWrongShape` naming the feature when it has another
  /// type.
  template <typename T>
  std::span<const T> values() const;
  /// The same, of whichever type they are.
  const Values& any_values() const { return values_; }

  /// Rows `begin` to `begin + rows`. Throws `kInvalidArgument` when there are fewer.
  FeatureView rows(int64_t begin, int64_t rows) const;

 private:
  std::string name_;
  Values values_;
  std::vector<int64_t> shape_;
  int64_t row_size_ = 1;
};

/// Contiguous rows of a global batch: what one replica works on. It copies no values and owns none: the batch must
/// outlive it.
///
///     std::span<const int32_t> ids = view.feature("input_ids").values<int32_t>();  // [rows * length]
class BatchView {
 public:
  /// All rows of a global batch. Throws `kWrongShape` when features differ in their number of rows.
  explicit BatchView(std::vector<FeatureView> features);

  int64_t rows() const { return rows_; }
  /// Where the first row lies in the global batch. Random choices of a model (dropout) are keyed by the row in the
  /// global batch, not by the replica, so that they do not depend on how the batch was split.
  int64_t first_row() const { return first_row_; }
  /// Throws `kMissingFeature` naming the feature and those there are.
  const FeatureView& feature(std::string_view name) const;
  /// The same, or null where there is none.
  const FeatureView* find(std::string_view name) const;
  /// In the order in which the batch has them.
  std::span<const FeatureView> features() const { return features_; }

  /// Rows `begin` to `begin + rows` of this view; `rows` may be 0.
  BatchView slice(int64_t begin, int64_t rows) const;

 private:
  BatchView() = default;

  std::vector<FeatureView> features_;
  int64_t rows_ = 0;
  int64_t first_row_ = 0;
};

}  // namespace millrace
