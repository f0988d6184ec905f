#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "millrace/ops/format_arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

struct OneHotOptions {
  DType dtype = DType::kFloat32;                         ///< of what comes out, no bytes. Default: float32
  std::variant<int64_t, double> on_value = int64_t{1};   ///< at the place that an index names. Default: 1
  std::variant<int64_t, double> off_value = int64_t{0};  ///< everywhere else. Default: 0

  static constexpr auto fields() {
    using A = OneHotOptions;
    return describe<A>("OneHotOptions", field::stream<&A::dtype>, field::stream<&A::on_value>,
                       field::stream<&A::off_value>);
  }
};

/// Puts `depth` values in the place of each index of a feature, all off but the one that the index names: as
/// `tf.one_hot(indices, depth, on_value, off_value)` with the new dimension last. An index below 0, or of `depth` and
/// above, has no place: all are off.
///
///     label int64 []   ->  one_hot("label", 3)  ->  label float32 [3]:     1         ->  [0,1,0]
///     ids int64 [?]    ->  one_hot("ids", 3)    ->  ids float32 [?,3]:     [2,-1]    ->  [[0,0,1],[0,0,0]]
///
/// Works on rows and on batches alike.
class OneHotOperator final : public MapOperator {
 public:
  /// `feature`: integers of any shape that is not ragged. `depth`: from 0 to 2^31 - 1. Throws `kInvalidArgument`
  /// for others, and for a value that the type cannot hold; a float32 is rounded to. An element of more than 2^40
  /// values is the error `wrong_shape`.
  OneHotOperator(const SchemaPtr& input, const std::string& feature, int64_t depth, const OneHotOptions& options = {});
  std::string_view name() const override { return "one_hot"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .uses_row_numbers = false}; }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  size_t column_;
  int64_t depth_;
  OneHotOptions options_;
};

/// What `Dataset::one_hot` is called with.
struct OneHotArguments {
  std::string feature = {};
  int64_t depth = 0;
  OneHotOptions options = {};

  static constexpr auto fields() {
    using A = OneHotArguments;
    return describe<A>("one_hot", field::required<&A::feature>, field::required<&A::depth>,
                       field::inlined<&A::options>);
  }
};

}  // namespace millrace
