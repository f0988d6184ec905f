#pragma once

#include <cstdint>
#include <string>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// Source: the int64 scalars `start`, `start + step`, … before `stop`. `step` may be negative but not 0.
///
///     RangeOperator range(0, 10, 4, "x");   // 0 4 8
class RangeOperator final : public StageOperator {
 public:
  RangeOperator(int64_t start, int64_t stop, int64_t step = 1, std::string feature = "value");
  std::string_view name() const override { return "range"; }
  Cardinality cardinality(std::span<const Cardinality>) const override { return Cardinality::known(count_); }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override {
    return {.is_nonblocking = true, .checkpoint_blocker = "", .is_light = true};
  }

 private:
  int64_t start_;
  int64_t step_;
  int64_t count_;
};

/// What `Dataset::range` is called with.
struct RangeArguments {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
  std::string feature = "value";

  static constexpr auto fields() {
    using A = RangeArguments;
    return describe<A>("range", field::required<&A::start>, field::required<&A::stop>, field::stream<&A::step>,
                       field::stream<&A::feature>);
  }
};

}  // namespace millrace
