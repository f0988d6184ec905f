#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/trainer/models/roberta_encoder.h"
#include "millrace/trainer/tape_model.h"

namespace millrace {

/// The targets of a QuestionAnswerRoberta, as numbers from 0, each in one list.
struct QuestionAnswerTargets {
  std::vector<int64_t> question = {};  ///< said of the question alone
  std::vector<int64_t> answer = {};    ///< of the answer alone
  std::vector<int64_t> joint = {};     ///< of both
};

struct QuestionAnswerOptions {
  double dropout = 0.5;             ///< of what the heads see. Default: 0.5
  std::string encoder_folder = {};  ///< a RoBERTa in Hugging Face's layout that `initialize` starts with. Default: none
};

/// Numbers in [0, 1] that are to be said of questions with their answers (the solution of a competition about question
/// quality): a Siamese model, of which one RoBERTa encoder is called for both. Its states are averaged where the masks
/// are 1, to q and a; the question's head sees q, the answer's a, the joint one [q, a, q a]. Each multiplies what it
/// sees by a gate (d to d/4, relu, to d, sigmoid), drops out, and has a linear output for each of its targets. The loss
/// is the binary cross entropy of the logits, averaged over rows and targets.
///
/// Batches have `question_ids` and `answer_ids`, int32 `[rows, length]`, their masks `question_mask` and `answer_mask`,
/// int64, and float `labels` `[rows, targets]`. It predicts the column `logits`, of the labels' shape and order.
/// Weights of the encoder have the names of Hugging Face's `RobertaForMaskedLM`, so that transformers loads it.
/// Immutable, any thread; a checkpoint holds the weights.
class QuestionAnswerRoberta final : public TapeModel {
 public:
  /// Throws `kInvalidArgument` for what cannot work, such as targets that are not 0 to n - 1 in some order.
  QuestionAnswerRoberta(const RobertaConfig& config, const QuestionAnswerTargets& targets,
                        QuestionAnswerOptions options = {});

  const RobertaEncoder& encoder() const { return encoder_; }
  std::string describe() const override;
  /// The encoder's start values, or those of its folder; gates as Glorot and Bengio, outputs as He et al. have them,
  /// normal; biases 0.
  void initialize(std::span<float> weights, uint64_t seed) const override;
  ForwardResult<float> forward(ForwardPass<float>& pass) const override { return run(pass); }
  ForwardResult<double> forward_in_double(ForwardPass<double>& pass) const override { return run(pass); }

 private:
  struct Dense {
    int weight = 0;
    int bias = 0;
  };
  struct Head {
    const char* name = nullptr;
    std::vector<int64_t> targets = {};
    Dense reduce = {};
    Dense expand = {};
    Dense output = {};
  };
  void add_head(const char* name, const std::vector<int64_t>& targets, int64_t width);
  template <typename T>
  ForwardResult<T> run(ForwardPass<T>& pass) const;

  RobertaEncoder encoder_;
  QuestionAnswerOptions options_;
  std::vector<Head> heads_;  // those that have targets
  int64_t num_targets_ = 0;
};

}  // namespace millrace
