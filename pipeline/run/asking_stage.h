#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "millrace/ops/stage.h"

namespace millrace {

/// A stage that asks what comes after the elements that it wanted, once it has ended: an operator before it wants to
/// be read to its end (`OperatorTraits::wants_end`), and `take(n)` of all n elements would never come there. What it
/// gets, and what goes wrong, is nothing to the stream; it waits for the answer.
class AskingStage final : public Stage {
 public:
  /// Opens the stage; only for one that polls its inputs itself.
  AskingStage(const std::function<std::unique_ptr<Stage>(std::vector<OpenStage> inputs)>& open,
              const std::vector<OpenStage>& inputs);
  Poll next(Block& out) override;

 private:
  class Asked;
  struct Input;

  std::vector<std::shared_ptr<Input>> inputs_;
  std::unique_ptr<Stage> stage_;
  bool ended_ = false;
};

}  // namespace millrace
