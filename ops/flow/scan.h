#pragma once

#include <functional>
#include <string>
#include <vector>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"
#include "millrace/ops/row_view.h"
#include "millrace/ops/written_features.h"

namespace millrace {

/// What a scan carries from one element to the next, and a saved state holds.
struct ScanNumbers {
  std::vector<int64_t> integers = {};
  std::vector<double> reals = {};
};

/// A user's function that is called for each element in order, with what it carries. It should be a pure function of
/// both.
struct ScanFunction {
  static constexpr std::string_view kKind = "scan function";
  std::string name = {};  ///< appears in errors and in `explain()`
  /// The features that it sets in each element, new ones or others' replacements
  std::vector<FeatureSpec> writes = {};
  ScanNumbers initial = {};  ///< what each iteration begins with; how many there are of each never changes
  std::function<void(ScanNumbers& carried, const RowView&, RowWriter&)> function = {};
  bool keep_others = true;  ///< the features that it does not write pass, without a copy. Default: true
};

/// Applies a function that remembers numbers. Elements go through it one after the other, on one thread: what needs no
/// memory belongs into a `map` before or after. What the function throws becomes the error of that element, and what
/// it carries is then as before it. Error elements pass, and it does not see them.
///
///     ScanOperator scan(schema, {.name = "running_sum",
///                                .writes = {{.name = "sum", .dtype = DType::kInt64, .shape = {}}},
///                                .initial = {.integers = {0}},
///                                .function = [](ScanNumbers& carried, const RowView& row, RowWriter& out) {
///                                  carried.integers[0] += row.value<int64_t>("x");
///                                  out.set("sum", carried.integers[0]);
///                                }});
///
///     x: 1 2 3   ->   x=1 sum=1, x=2 sum=3, x=3 sum=6
class ScanOperator final : public StageOperator {
 public:
  ScanOperator(const SchemaPtr& input, ScanFunction function);
  std::string_view name() const override { return "scan"; }
  Cardinality cardinality(std::span<const Cardinality> inputs) const override { return inputs[0]; }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override { return {.checkpoint_blocker = ""}; }

 private:
  // A reference: the features are made of the function before it is moved.
  ScanOperator(WrittenFeatures features, ScanFunction&& function);

  WrittenFeatures features_;
  ScanFunction function_;
};

std::string text_of_argument(const ScanFunction& function, bool all);

/// What `Dataset::scan` is called with.
struct ScanArguments {
  ScanFunction function = {};

  static constexpr auto fields() { return describe<ScanArguments>("scan", field::required<&ScanArguments::function>); }
};

}  // namespace millrace
