#pragma once

#include <string>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// Keeps of all elements whose `feature` has one value the first; equal are values of one shape and the same numbers or
/// strings, floats by their bits. Error elements pass.
///
///     x: 3 1 3 2 1   ->   3 1 2
///
/// A value that was seen is kept as a digest of 128 bits: two of 10^9 unlike values are taken for equal with a chance
/// of 10^-21. The digests are in the pipeline's memory, 21 to 43 bytes each, and may take three quarters of its budget;
/// the element with which that is not enough is the error `kMemoryBudget`.
///
/// A state is one number, how many elements were read: a resumed run reads the iteration again from its beginning up to
/// there. Put `unique` before `shuffle`, and before what is dear.
class UniqueOperator final : public StageOperator {
 public:
  UniqueOperator(SchemaPtr schema, const std::string& feature);
  std::string_view name() const override { return "unique"; }
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::unknown(); }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override {
    return {.is_nonblocking = true, .forwards_row_views = true, .checkpoint_blocker = ""};
  }

 private:
  size_t column_;
};

/// What `Dataset::unique` is called with.
struct UniqueArguments {
  std::string feature;

  static constexpr auto fields() {
    return describe<UniqueArguments>("unique", field::required<&UniqueArguments::feature>);
  }
};

}  // namespace millrace
