#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/parse_tensor.h"

namespace millrace {

/// Several `ParseTensorOperator`s at once, row by row, where their shapes are fixed and none of them is `bytes`: of
/// rows, or of batches of them, in which each tensor is copied straight to its place. The first row with an error
/// decides.
class ParseTensorsOperator final : public MapOperator {
 public:
  using Tensors = std::vector<std::shared_ptr<const ParseTensorOperator>>;
  /// `input`: in place of each tensor one `bytes` value, or a batch of them.
  ParseTensorsOperator(const SchemaPtr& input, Tensors tensors);
  /// Whether it can do what this operator does.
  [[nodiscard]] static bool takes(const ParseTensorOperator& tensor);
  std::string_view name() const override { return "parse_tensor"; }
  std::string remark() const override { return std::to_string(tensors_.size()) + " at once"; }
  bool never_waits() const override { return true; }
  Block apply(Block block, BufferPool& pool) const override;
  bool uses_row_numbers() const override { return false; }
  const Tensors& tensors() const { return tensors_; }

 private:
  Tensors tensors_;
  bool batched_;
};

}  // namespace millrace
