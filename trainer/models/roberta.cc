#include "millrace/trainer/models/roberta.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/models/labelled_positions.h"
#include "millrace/trainer/models/named_activation.h"
#include "millrace/trainer/tensor/cross_entropy.h"
#include "millrace/trainer/tensor/gelu.h"
#include "millrace/trainer/tensor/layer_norm.h"
#include "millrace/trainer/tensor/linear.h"

namespace millrace {
namespace {

class RobertaWorkspace final : public Workspace {
 public:
  Arena arena;
  Tape<float> tape{arena};
  LabelledPositions labelled;
};

}  // namespace

RobertaForMaskedLm::RobertaForMaskedLm(RobertaConfig config, int64_t bucket_bytes)
    : encoder_(layout_, std::move(config)) {
  const int64_t hidden = encoder_.config().hidden_size;
  dense_weight_ = layout_.add("lm_head.dense.weight", {hidden, hidden});
  dense_bias_ = layout_.add("lm_head.dense.bias", {hidden});
  norm_weight_ = layout_.add("lm_head.layer_norm.weight", {hidden});
  norm_bias_ = layout_.add("lm_head.layer_norm.bias", {hidden});
  output_bias_ = layout_.add("lm_head.bias", {encoder_.config().vocab_size});
  // Some versions of transformers set the bias to 0 when they do not find it here.
  layout_.add_second_name(output_bias_, "lm_head.decoder.bias");
  layout_.finish(bucket_bytes);
}

void RobertaForMaskedLm::initialize(std::span<float> weights, uint64_t seed) const {
  encoder_.initialize(layout_, weights, seed);
  for (int id = dense_weight_; id <= output_bias_; ++id) {
    initialize_roberta_parameter(layout_, id, config().initializer_range, weights, seed);
  }
}

std::unique_ptr<Workspace> RobertaForMaskedLm::make_workspace() const { return std::make_unique<RobertaWorkspace>(); }

template <typename T>
Tensor<T> RobertaForMaskedLm::logits(Tape<T>& tape, const Tensor<T>& hidden) const {
  // GELU whatever hidden_act is, as in transformers.
  Tensor<T> x = gelu(tape, linear(tape, hidden, tape.parameter(dense_weight_), tape.parameter(dense_bias_)));
  x = layer_norm(tape, x, tape.parameter(norm_weight_), tape.parameter(norm_bias_), config().layer_norm_eps);
  return linear(tape, x, tape.parameter(encoder_.word_embeddings()), tape.parameter(output_bias_));
}

std::string RobertaForMaskedLm::describe() const {
  // Checkpoints of earlier versions, which had no other, do not say it.
  const bool usual = config().hidden_act == Activation::kGelu;
  const std::string activation = usual ? "" : fmt::format(", hidden_act={}", name_of(config().hidden_act));
  return fmt::format(
      "roberta(num_attention_heads={}, pad_token_id={}, layer_norm_eps={}, hidden_dropout_prob={}, "
      "attention_probs_dropout_prob={}{})",
      config().num_attention_heads, config().pad_token_id, config().layer_norm_eps, config().hidden_dropout_prob,
      config().attention_probs_dropout_prob, activation);
}

StepResult RobertaForMaskedLm::train_step(const BatchView& rows, const float* weights, ReplicaContext& context) const {
  auto& workspace = static_cast<RobertaWorkspace&>(*context.workspace);
  const DropoutKey key{.seed = context.seed, .batch = context.batch};
  workspace.labelled.collect(rows.feature("labels").values<int32_t>());
  Tape<float>& tape = workspace.tape;
  tape.begin(layout_, weights,
             {.values = context.gradients.data(), .listener = context.listener, .storage = context.activations});
  const Tensor<float> hidden = encode_tokens(tape, RobertaInput::of(rows), workspace.labelled.indices, &key);
  const SummedLoss<float> loss = cross_entropy(tape, logits(tape, hidden), workspace.labelled.labels);
  const auto scale = static_cast<float>(context.loss_scale);
  tape.backward(loss.tensor, {&scale, 1}, context.trainable);
  return {.sum_loss = loss.sum, .weight = static_cast<double>(loss.num_labels)};
}

StepResult RobertaForMaskedLm::evaluate(const BatchView& rows, const float* weights, Workspace& replica) const {
  auto& workspace = static_cast<RobertaWorkspace&>(replica);
  workspace.labelled.collect(rows.feature("labels").values<int32_t>());
  Tape<float>& tape = workspace.tape;
  tape.begin(layout_, weights);
  const Tensor<float> hidden = encode_tokens(tape, RobertaInput::of(rows), workspace.labelled.indices);
  const SummedLoss<float> loss = cross_entropy(tape, logits(tape, hidden), workspace.labelled.labels);
  return {.sum_loss = loss.sum, .weight = static_cast<double>(loss.num_labels)};
}

Predictions RobertaForMaskedLm::predict(const BatchView& rows, const float* weights, Workspace& replica) const {
  auto& workspace = static_cast<RobertaWorkspace&>(replica);
  const FeatureView& labels = rows.feature("labels");
  workspace.labelled.collect(labels.values<int32_t>());
  Tape<float>& tape = workspace.tape;
  tape.begin(layout_, weights);
  const Tensor<float> hidden = encode_tokens(tape, RobertaInput::of(rows), workspace.labelled.indices);
  const Tensor<float> scores = logits(tape, hidden);
  std::vector<int32_t> ids(labels.values<int32_t>().size(), kNoLabel);
  for (int64_t i = 0; i < scores.rows(); ++i) {
    const float* row = scores.values + i * scores.columns();
    const float* best = std::max_element(row, row + scores.columns());
    ids[static_cast<size_t>(workspace.labelled.indices[static_cast<size_t>(i)])] = static_cast<int32_t>(best - row);
  }
  const SummedLoss<float> loss = cross_entropy(tape, scores, workspace.labelled.labels);
  return {.rows = rows.rows(),
          .columns = {{.name = "ids", .row_shape = {labels.row_size()}, .values = std::move(ids)}},
          .result = {.sum_loss = loss.sum, .weight = static_cast<double>(loss.num_labels)}};
}

template Tensor<float> RobertaForMaskedLm::logits(Tape<float>&, const Tensor<float>&) const;
template Tensor<double> RobertaForMaskedLm::logits(Tape<double>&, const Tensor<double>&) const;

}  // namespace millrace
