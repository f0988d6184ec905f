#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

struct PlanNode;
using PlanNodePtr = std::shared_ptr<const PlanNode>;

/// Makes an operator for inputs with these schemas: how a rewrite puts an operator in another place.
using MakeOperator = std::function<std::shared_ptr<const Operator>(std::span<const SchemaPtr> inputs)>;

/// One operator of a dataset with its inputs. Immutable and shared between datasets.
struct PlanNode {
  std::shared_ptr<const Operator> op = {};
  std::vector<PlanNodePtr> inputs = {};
  MakeOperator make = {};
  /// Of the method of Dataset that made it; null: a rewrite, or yours
  std::shared_ptr<const Arguments> arguments = {};

  /// What its arguments say, as text: options that have their default only with `all`.
  std::string text(Effect wanted, bool all) const;
};

/// Makes the node of an operator on top of `inputs`.
[[nodiscard]] PlanNodePtr make_plan_node(std::vector<PlanNodePtr> inputs, MakeOperator make,
                                         std::shared_ptr<const Arguments> arguments = nullptr);

/// The operator of `node` on top of inputs that give the bytes of its rows instead: what it makes of them itself, else
/// what made it. `rows.schema` is the first input's, whatever it says. Throws `std::logic_error` for an operator that
/// promises to parse them inside (`DeferParse::kInside`) and has no such form.
[[nodiscard]] PlanNodePtr make_on_deferred_rows(const PlanNode& node, std::vector<PlanNodePtr> inputs,
                                                const DeferredRows& rows);

/// The operator of a node by its kind, of which there are two; or null.
[[nodiscard]] std::shared_ptr<const MapOperator> as_map(const PlanNode& node);
[[nodiscard]] std::shared_ptr<const StageOperator> as_stage(const PlanNode& node);

/// Why a pipeline with this operator cannot be saved; empty when it can.
[[nodiscard]] std::string_view checkpoint_blocker(const PlanNode& node);

/// How many elements the plan delivers, computed from the sources up.
[[nodiscard]] Cardinality plan_cardinality(const PlanNode& node);
/// The same for whoever decides by it. `plan_cardinality` reports what tf.data does, which calls choose_from_datasets
/// and sample_from_datasets infinite also where choices or one of the inputs end them; here these are unknown. An
/// endless `repeat` of what is unknown is infinite in both, though it ends where that turns out to be empty.
[[nodiscard]] Cardinality certain_cardinality(const PlanNode& node);

/// The files that the plan reads, inputs first.
[[nodiscard]] std::vector<std::string> shard_paths(const PlanNode& node);

/// How many operators of this name stand on the way from a source to the output of `node`, on the way with the most.
[[nodiscard]] uint64_t count_upstream(const PlanNode& node, std::string_view name);

/// One line for each operator, the source first, inputs of operators with several indented.
[[nodiscard]] std::string print_plan(const PlanNode& node);

/// The same as a directed graph in the DOT language: a node for each operator with its arguments, once where several
/// read it, and the features of its elements on the edges.
[[nodiscard]] std::string print_dot(const PlanNode& node);

/// A rewrite that was applied, and why.
struct AppliedRewrite {
  std::string name = {};
  std::string reason = {};
};

/// A change of a plan that keeps its stream, errors included.
struct Rewrite {
  std::string_view name = {};
  std::string_view what = {};  ///< one line for `--help` and `explain()`
  PlanNodePtr (*apply)(const PlanNodePtr& plan, std::vector<AppliedRewrite>& applied) = nullptr;
};

/// All rewrites, in the order in which they run.
std::span<const Rewrite> all_rewrites();

/// The plan after all rewrites except the ones named. Throws `kInvalidArgument` when a name is no rewrite's.
[[nodiscard]] PlanNodePtr rewrite_plan(PlanNodePtr plan, std::span<const std::string> disabled,
                                       std::vector<AppliedRewrite>& applied);

}  // namespace millrace
