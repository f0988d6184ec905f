#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "millrace/trainer/models/t5.h"

namespace millrace {

/// A T5 that says a word for the class of a text, as one token: it is trained as the T5 is, and predicts classes.
///
///     const T5Classifier model(load_t5_config("t5-base"), {4802, 731, 306}, "t5-base");
///
/// A prediction is the column `token`, int32 `[rows]`, the first token of greedy search; and `class`, int64 `[rows,
/// 1]`, the place of that token in `class_tokens`, or -1 where it is of no class. Losses come with it where rows have
/// `labels`. No more than the logits of one token a row are in memory. Immutable, any thread; a checkpoint holds the
/// T5's weights.
class T5Classifier final : public Model {
 public:
  /// `start`: the directory of a T5 whose weights are the start values. Default: none, those of the T5's `initialize`.
  /// Throws as T5ForConditionalGeneration, and `kInvalidArgument` for a token outside of the vocabulary or one that is
  /// there twice.
  T5Classifier(T5Config config, std::vector<int32_t> class_tokens, std::string start = {});

  const T5ForConditionalGeneration& t5() const { return t5_; }

  const ParameterLayout& layout() const override { return t5_.layout(); }
  std::string describe() const override { return t5_.describe(); }
  /// Throws as `load_t5_weights` where it starts from a directory.
  void initialize(std::span<float> weights, uint64_t seed) const override;
  std::unique_ptr<Workspace> make_workspace() const override { return t5_.make_workspace(); }
  StepResult train_step(const BatchView& rows, const float* weights, ReplicaContext& context) const override {
    return t5_.train_step(rows, weights, context);
  }
  StepResult evaluate(const BatchView& rows, const float* weights, Workspace& workspace) const override {
    return t5_.evaluate(rows, weights, workspace);
  }
  Predictions predict(const BatchView& rows, const float* weights, Workspace& workspace) const override;

 private:
  T5ForConditionalGeneration t5_;
  std::vector<int32_t> class_tokens_;
  std::string start_;
};

}  // namespace millrace
