#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/ops/parse/parse_tensor.h"

namespace millrace {

/// Several `ParseTensorOperator`s at once, row by row, where their shapes are fixed and none of them is `bytes`: of
/// rows, or of batches of them, in which each tensor is copied straight to its place. The first row with an error
/// decides.
class ParseTensorsOperator final : public MapOperator {
 public:
  using Tensors = std::vector<std::shared_ptr<const ParseTensorOperator>>;
  /// `input`: in place of each tensor one `bytes` value, or a batch of them.
  ParseTensorsOperator(const SchemaPtr& input, Tensors tensors);
  /// Those of `run`, one after the other; null where it cannot do what one of them does.
  [[nodiscard]] static std::shared_ptr<const MapOperator> of(std::span<const std::shared_ptr<const MapOperator>> run,
                                                             const SchemaPtr& input);
  std::string_view name() const override { return "parse_tensor"; }
  std::string remark() const override { return std::to_string(tensors_.size()) + " at once"; }
  OperatorTraits traits() const override {
    return {.is_nonblocking = true, .uses_row_numbers = false, .parses = Parses::kValues, .parses_batches = batched_};
  }
  std::shared_ptr<const MapOperator> fused(std::span<const std::shared_ptr<const MapOperator>> run,
                                           const SchemaPtr& input) const override {
    return of(run, input);
  }
  Block apply(Block block, BufferPool& pool) const override;

 private:
  Tensors tensors_;
  bool batched_;
};

}  // namespace millrace
