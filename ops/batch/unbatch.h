#pragma once

#include <memory>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// Takes elements apart: what stands along the first dimension of each feature becomes an element of its own. Every
/// feature must have such a dimension, and all features of an element equally many rows in it: else it is an error.
/// tf.data: `unbatch`.
///
///     rows [1,2] [] [3], unbatch()                 // 1 2 3
///     range(5), batch(2), unbatch()                // 0 1 2 3 4
///     rows [1,2] [3], ragged_batch(2), unbatch()   // [1,2] [3]
///
/// Rows of a ragged feature become vectors of any length. tf.data goes on calling them ragged, and its `batch` and
/// `group_by_window` after make them ragged again; here that is `ragged_batch`, or `RaggedBatchOptions` given.
///
/// State: a place in the input, and how many rows of the element there are gone.
class UnbatchOperator final : public StageOperator {
 public:
  explicit UnbatchOperator(const SchemaPtr& input);
  std::string_view name() const override { return "unbatch"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .checkpoint_blocker = ""}; }
  /// As in tf.data known where the input's is and the schema has the number of rows; infinite like the input's.
  Cardinality cardinality(std::span<const Cardinality> inputs) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;

 private:
  int64_t rows_;  // that every element has; negative: not known
};

/// The schema of what elements of `input` are made up of along their first dimension. Throws `kInvalidArgument` when a
/// feature is a scalar; `operator_name` stands in the message.
SchemaPtr unbatched_schema(std::string_view operator_name, const Schema& input);
/// The stage that takes them apart.
std::unique_ptr<Stage> open_unbatch(const SchemaPtr& schema, const OpenStage& input, const StageContext& context);

/// What `Dataset::unbatch` is called with.
struct UnbatchArguments {
  static constexpr auto fields() { return describe<UnbatchArguments>("unbatch"); }
};

}  // namespace millrace
