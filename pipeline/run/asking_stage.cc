#include "millrace/pipeline/run/asking_stage.h"

#include <utility>

#include "millrace/ops/notes.h"

namespace millrace {

/// What the stage has left of an input.
struct AskingStage::Input {
  std::unique_ptr<Stage> left;
};

/// The input as the stage has it. It stays when the stage lets go of it, if elements came and not their end.
class AskingStage::Asked final : public Stage {
 public:
  Asked(std::unique_ptr<Stage> stage, std::shared_ptr<Input> input)
      : stage_(std::move(stage)), input_(std::move(input)) {}
  ~Asked() override {
    if (last_ != Poll::kEnd && gave_some_) input_->left = std::move(stage_);
  }

  Poll next(Block& out) override {
    last_ = stage_->next(out);
    gave_some_ = gave_some_ || last_ == Poll::kBlock;
    return last_;
  }

 private:
  std::unique_ptr<Stage> stage_;
  const std::shared_ptr<Input> input_;
  Poll last_ = Poll::kPending;
  bool gave_some_ = false;
};

AskingStage::AskingStage(const std::function<std::unique_ptr<Stage>(std::vector<OpenStage> inputs)>& open,
                         const std::vector<OpenStage>& inputs) {
  std::vector<OpenStage> asked;
  for (const OpenStage& input : inputs) {
    inputs_.push_back(std::make_shared<Input>());
    asked.push_back([input, held = inputs_.back()](const StageContext& context) {
      held->left.reset();  // of the iteration before
      return std::make_unique<Asked>(input(context), held);
    });
  }
  stage_ = open(std::move(asked));
}

Poll AskingStage::next(Block& out) {
  if (!ended_) {
    const Poll poll = stage_->next(out);
    if (poll != Poll::kEnd) return poll;
    ended_ = true;
    stage_.reset();
  }
  for (const std::shared_ptr<Input>& input : inputs_) {
    if (input->left == nullptr) continue;
    try {
      Block unwanted;
      Poll poll = Poll::kEnd;
      do {
        unwanted = Block();
        poll = input->left->next(unwanted);
      } while (poll == Poll::kBlock && holds_notes_only(unwanted));
      if (poll == Poll::kPending) return Poll::kPending;
    } catch (...) {  // the stream has ended
    }
    input->left.reset();
  }
  return Poll::kEnd;
}

}  // namespace millrace
