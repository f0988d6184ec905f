#include "millrace/pipeline/padding_count.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "millrace/ops/features/map.h"
#include "millrace/ops/flow/ignore_errors.h"

namespace millrace {
namespace {

void find_padding(const PlanNodePtr& node, std::unordered_set<const PlanNode*>& seen, std::vector<PlanNodePtr>& found) {
  if (!seen.insert(node.get()).second) return;
  for (const PlanNodePtr& input : node->inputs) find_padding(input, seen, found);
  if (node->op->traits().pads) found.push_back(node);
}

// Writes how many values the rows have of each feature.
RowFunction row_sizes(const std::vector<PaddingCount>& features, const std::vector<std::string>& sizes) {
  RowFunction function{.name = "row sizes"};
  for (const std::string& size : sizes) function.writes.push_back({.name = size, .dtype = DType::kInt64, .shape = {}});
  function.function = [features, sizes](const RowView& row, RowWriter& writer) {
    for (size_t i = 0; i < sizes.size(); ++i) writer.set(sizes[i], num_values(row.shape(features[i].feature)));
  };
  return function;
}

PlanNodePtr without_errors(PlanNodePtr plan) {
  return make_plan_node({std::move(plan)}, [](std::span<const SchemaPtr> inputs) {
    return std::make_shared<const IgnoreErrorsOperator>(inputs[0]);
  });
}

}  // namespace

std::vector<PaddingCounter> PaddingCounter::of(const PlanNodePtr& plan) {
  std::unordered_set<const PlanNode*> seen;
  std::vector<PlanNodePtr> found;
  find_padding(plan, seen, found);
  std::vector<PaddingCounter> counters;
  for (const PlanNodePtr& node : found) {
    PaddingCounter counter;
    const Schema& input = *node->inputs[0]->op->schema();
    counter.zero_in_padding_ = node->op->traits().zero_in_padding;
    for (const FeatureSpec& feature : input.features()) {
      if (feature.shape.empty() || node->op->schema()->find(feature.name) < 0) continue;
      counter.features_.push_back({.op = std::string(node->op->name()), .feature = feature.name});
    }
    if (counter.features_.empty()) continue;
    if (!counter.zero_in_padding_.empty()) {
      counter.plan_ = without_errors(node);
      counters.push_back(std::move(counter));
      continue;
    }
    for (const PaddingCount& feature : counter.features_) {
      std::string& name = counter.sizes_.emplace_back("values of " + feature.feature);
      while (input.find(name) >= 0) name += '\'';
    }
    PlanNodePtr sized = make_plan_node(
        node->inputs, [function = row_sizes(counter.features_, counter.sizes_)](std::span<const SchemaPtr> inputs) {
          return std::make_shared<const MapRowsOperator>(inputs[0], function);
        });
    counter.plan_ = without_errors(make_plan_node({std::move(sized)}, node->make));
    counters.push_back(std::move(counter));
  }
  return counters;
}

std::vector<PaddingCount> PaddingCounter::count(int64_t rows, StartOptions options,
                                                const std::function<void(int64_t elements)>& on_element) const {
  options.ordered = true;
  // They are of the whole dataset, which has been read already.
  options.state.reset();
  options.trace = nullptr;
  options.on_skip = nullptr;
  std::vector<PaddingCount> counts = features_;
  std::vector<AppliedRewrite> applied;
  Pipeline pipeline(rewrite_plan(plan_, options.disabled_rewrites, applied), *plan_, options);
  int64_t elements = 0;
  for (int64_t read = 0; read < rows;) {
    const std::optional<Batch> batch = pipeline.next();
    if (!batch) break;
    read += batch->num_rows();
    ++elements;
    for (size_t i = 0; i < counts.size(); ++i) {
      counts[i].values += num_values(batch->shape(counts[i].feature));
      if (zero_in_padding_.empty()) {
        counts[i].padded += num_values(batch->shape(counts[i].feature));
        for (const int64_t size : batch->values<int64_t>(sizes_[i])) counts[i].padded -= size;
      } else {
        const auto segments = batch->values<int32_t>(zero_in_padding_);
        counts[i].padded += std::count(segments.begin(), segments.end(), 0);
      }
    }
    if (on_element) on_element(elements);
  }
  for (PaddingCount& count : counts) count.elements = elements;
  return counts;
}

}  // namespace millrace
