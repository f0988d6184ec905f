#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "millrace/ops/format_arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// Rows of one feature, kept in memory. A scalar feature takes a vector of values, one for each element; a vector
/// feature takes a vector of rows, whose lengths may differ. With a shape the values are those of elements of any rank
/// in row-major order: in one vector the values of one element after those of the other, or a row for each element, of
/// which one size may be kVaries and follows from the row's length.
///
///     {"image", pixels, Shape{28, 28}}                             of n * 784 values n elements [28,28]
///     {"steps", {{1, 2}, {3, 4, 5, 6}}, Shape{kVaries, 2}}         [[1,2]] and [[3,4],[5,6]]
///
/// Rows that are ragged in themselves come from `ragged_batch`.
struct MemoryFeature {
  std::string name = {};
  std::variant<std::vector<int32_t>, std::vector<int64_t>, std::vector<float>, std::vector<std::string>,
               std::vector<uint8_t>, std::vector<std::vector<int32_t>>, std::vector<std::vector<int64_t>>,
               std::vector<std::vector<float>>, std::vector<std::vector<std::string>>,
               std::vector<std::vector<uint8_t>>>
      values = {};
  std::optional<Shape> shape = {};  ///< of each element. Default: what the values say, a scalar or a vector
};

/// As definitions have it: its values flat, and the lengths of the rows of a vector feature.
struct FlatFeature {
  std::string name = {};
  DType dtype = DType::kInt64;
  std::vector<int64_t> integers = {};
  std::vector<float> reals = {};
  std::vector<std::string> texts = {};
  std::optional<Shape> row_lengths = {};
  std::optional<Shape> shape = {};

  static constexpr auto fields() {
    using A = FlatFeature;
    return describe<A>("MemoryFeature", field::required<&A::name>, field::required<&A::dtype>,
                       field::stream<&A::integers>, field::stream<&A::reals>, field::stream<&A::texts>.as_bytes(),
                       field::stream<&A::row_lengths>.as_shape(), field::stream<&A::shape>.as_shape());
  }
};
template <>
struct WrittenAs<MemoryFeature> {
  using Type = FlatFeature;
  static Type to(const MemoryFeature& feature);
  static MemoryFeature from(const Type& feature);
};
/// Its values are part of `Operator::content_digest`.
inline std::string text_of_argument(const MemoryFeature& feature, bool /*all*/) {
  return description::quoted(feature.name);
}

/// Source: elements from memory, in order. The features have equally many rows. The operator keeps the values; blocks
/// share them. A vector feature whose rows have one length gets that as its shape.
///
///     RowsOperator rows({{"tokens", std::vector<std::vector<int64_t>>{{1, 2}, {3}, {}}},
///                        {"name", std::vector<std::string>{"a", "b", "c"}}});
class RowsOperator final : public StageOperator {
 public:
  explicit RowsOperator(const std::vector<MemoryFeature>& features);
  std::string_view name() const override { return "rows"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .checkpoint_blocker = ""}; }
  Cardinality cardinality(std::span<const Cardinality>) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  uint64_t content_digest() const override { return content_digest_; }

 private:
  Block all_;
  uint64_t content_digest_ = 0;
};

/// What `Dataset::rows` is called with.
struct RowsArguments {
  std::shared_ptr<const std::vector<MemoryFeature>> features = {};

  static constexpr auto fields() { return describe<RowsArguments>("rows", field::required<&RowsArguments::features>); }
};

}  // namespace millrace
