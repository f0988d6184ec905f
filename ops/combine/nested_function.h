#pragma once

#include <functional>
#include <optional>
#include <string>

#include "millrace/ops/block_reader.h"
#include "millrace/ops/combine/nested_inputs.h"
#include "millrace/ops/row_view.h"

namespace millrace {

/// A function that makes a nested dataset of an element. It must be thread safe, and a pure function of the element: a
/// resumed run calls it again for the elements whose datasets were open. The element is there only during the call.
struct NestedFunction {
  std::string name;  ///< appears in errors and in `explain()`
  SchemaPtr schema;  ///< of the elements of every nested dataset
  std::function<OpenStage(const RowView&)> open;

  /// Throws `kInvalidArgument` naming the operator when there is no function or no schema.
  void check(std::string_view operator_name) const;
};

/// The datasets that a function makes of the elements of an input: the inputs of an interleave, or of a flat_map, which
/// is one with a cycle of one. What the function throws is the error of its element, in its place as are errors of the
/// input. The place of a dataset is that of its element.
class FunctionInputs final : public NestedInputs {
 public:
  /// `operator_name` stands in errors. It and the function must outlive this object.
  FunctionInputs(std::string_view operator_name, const NestedFunction& function, OpenStage input,
                 const StageContext& context);
  Poll next(NestedInput& out) override;
  std::optional<Cursor> place() const override { return begin_.advanced_by(gone_ + to_drop_); }
  /// Cheap where places are asked for in their order: what lies between them is read once.
  void seek(uint64_t number, const Cursor& place) override;

 private:
  void go_on() {
    input_->skip(1);
    ++gone_;
    ++passed_;
  }
  OpenStage open_element() const;

  std::string_view operator_name_;
  const NestedFunction& function_;
  OpenStage open_input_;
  StageContext context_;
  std::optional<BlockReader> input_;
  Cursor opened_at_;     // where `input_` was opened
  int64_t passed_ = 0;   // elements since then
  Cursor begin_;         // a place in the input
  int64_t gone_ = 0;     // elements after it that are gone
  int64_t to_drop_ = 0;  // before the one that was sought
};

}  // namespace millrace
