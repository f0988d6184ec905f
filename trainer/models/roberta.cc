#include "millrace/trainer/models/roberta.h"

#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "millrace/trainer/models/labelled_positions.h"
#include "millrace/trainer/models/named_activation.h"
#include "millrace/trainer/models/normal_weights.h"
#include "millrace/trainer/tensor/cross_entropy.h"
#include "millrace/trainer/tensor/gelu.h"
#include "millrace/trainer/tensor/layer_norm.h"
#include "millrace/trainer/tensor/linear.h"

namespace millrace {
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
    initialize_parameter(layout_, id, config().initializer_range, weights, seed);
  }
}

template <typename T>
Tensor<T> RobertaForMaskedLm::logits(Tape<T>& tape, const Tensor<T>& hidden) const {
  // GELU whatever hidden_act is, as in transformers.
  Tensor<T> x = gelu(tape, linear(tape, hidden, tape.parameter(dense_weight_), tape.parameter(dense_bias_)));
  x = layer_norm(tape, x, tape.parameter(norm_weight_), tape.parameter(norm_bias_), config().layer_norm_eps);
  return linear(tape, x, tape.parameter(encoder_.word_embeddings()), tape.parameter(output_bias_));
}

std::string RobertaForMaskedLm::describe() const {
  std::string encoder = encoder_.describe();
  // Checkpoints of earlier versions, which had no other, do not say it.
  const std::string usual = fmt::format(", hidden_act={}", name_of(Activation::kGelu));
  if (encoder.ends_with(usual)) encoder.resize(encoder.size() - usual.size());
  return fmt::format("roberta({})", encoder);
}

template <typename T>
ForwardResult<T> RobertaForMaskedLm::run(ForwardPass<T>& pass) const {
  Tape<T>& tape = pass.tape();
  const RobertaInput input = RobertaInput::of(pass.rows());
  const FeatureView* labels = pass.labels();
  LabelledPositions chosen;
  if (labels != nullptr) {
    chosen.collect(labels->values<int32_t>());
  } else {
    chosen.indices.resize(input.ids.size());
    std::iota(chosen.indices.begin(), chosen.indices.end(), 0);
  }
  const Tensor<T> scores = logits(tape, encode_tokens(tape, input, pass.keep(chosen.indices), pass.dropout_key()));
  ForwardResult<T> result;
  if (pass.predicts()) {
    std::vector<int32_t> ids(labels != nullptr ? labels->values<int32_t>().size() : input.ids.size(), kNoLabel);
    const std::vector<int32_t> best = largest_in_rows(scores);
    for (size_t i = 0; i < best.size(); ++i) ids[static_cast<size_t>(chosen.indices[i])] = best[i];
    const int64_t length = labels != nullptr ? labels->row_size() : input.length;
    result.columns = {{.name = "ids", .row_shape = {length}, .values = std::move(ids)}};
  }
  if (labels != nullptr) result.losses.emplace_back(cross_entropy(tape, scores, pass.keep(chosen.labels)));
  return result;
}

template Tensor<float> RobertaForMaskedLm::logits(Tape<float>&, const Tensor<float>&) const;
template Tensor<double> RobertaForMaskedLm::logits(Tape<double>&, const Tensor<double>&) const;

}  // namespace millrace
