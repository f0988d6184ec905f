#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/batch.h"
#include "ops/interleave.h"
#include "ops/operator.h"
#include "ops/padded_batch.h"
#include "ops/prefetch.h"
#include "ops/range.h"
#include "ops/rows.h"
#include "pipeline/pipeline.h"
#include "pipeline/plan.h"

namespace millrace {

/// An immutable description of a stream of elements: a source and the operators behind it. Each method returns a new
/// dataset and throws `kInvalidArgument` at once when an argument cannot work. Cheap to copy; any thread.
///
///     Dataset squares = Dataset::range(0, 1000).batch(32, {.drop_remainder = true}).prefetch(2);
///     Pipeline pipeline = squares.start({.threads = 4});
///     while (std::optional<Batch> batch = pipeline.next()) use(batch->values<int64_t>("value"));
class Dataset {
 public:
  /// int64 scalars; see RangeOperator.
  static Dataset range(int64_t start, int64_t stop, int64_t step = 1, std::string feature = "value");
  /// Elements from memory; see RowsOperator.
  static Dataset rows(std::vector<MemoryFeature> features);
  /// Takes elements of the inputs in turn; see InterleaveOperator. All inputs must have one schema.
  static Dataset interleave(const std::vector<Dataset>& inputs, const InterleaveOptions& options = {});
  /// A dataset of any operator on top of `inputs`: how an operator of your own joins.
  static Dataset from_operator(const std::vector<Dataset>& inputs, MakeOperator make);

  [[nodiscard]] Dataset batch(int64_t size, const BatchOptions& options = {}) const;
  [[nodiscard]] Dataset padded_batch(int64_t size, const PaddedBatchOptions& options = {}) const;
  [[nodiscard]] Dataset prefetch(int64_t buffer_size) const;

  /// The features of every element.
  const Schema& schema() const { return *plan_->op->schema(); }
  Cardinality cardinality() const { return plan_cardinality(*plan_); }
  const PlanNodePtr& plan() const { return plan_; }

  /// The operators as written, the rewrites with their reasons, and the segments as they run.
  std::string explain(const StartOptions& options = {}) const;

  /// Starts to run it.
  [[nodiscard]] Pipeline start(const StartOptions& options = {}) const;

 private:
  explicit Dataset(PlanNodePtr plan) : plan_(std::move(plan)) {}
  /// This dataset with an operator behind it that is made from the schema and `arguments`.
  template <typename Op, typename... Arguments>
  Dataset then(Arguments... arguments) const;

  PlanNodePtr plan_;
};

}  // namespace millrace
