#pragma once

#include <string>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"
#include "millrace/ops/written_features.h"

namespace millrace {

/// Adds the number of each element: the int64 scalar `feature`, from `start` on, in the place of one of that name or
/// after all. Batches are counted as one each. An error element has a number too, which is left out.
///
///     x: 5 6 7   ->   x=5 index=0, x=6 index=1, x=7 index=2
class EnumerateOperator final : public StageOperator {
 public:
  explicit EnumerateOperator(const SchemaPtr& input, int64_t start = 0, const std::string& feature = "index");
  std::string_view name() const override { return "enumerate"; }
  OperatorTraits traits() const override { return {.is_nonblocking = true, .checkpoint_blocker = ""}; }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override { return inputs[0]; }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;

 private:
  EnumerateOperator(WrittenFeatures features, int64_t start);

  WrittenFeatures features_;
  int64_t start_;
};

/// What `Dataset::enumerate` is called with.
struct EnumerateArguments {
  int64_t start = 0;
  std::string feature = "index";

  static constexpr auto fields() {
    using A = EnumerateArguments;
    return describe<A>("enumerate", field::stream<&A::start>, field::stream<&A::feature>);
  }
};

}  // namespace millrace
