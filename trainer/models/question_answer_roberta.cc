#include "millrace/trainer/models/question_answer_roberta.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/models/normal_weights.h"
#include "millrace/trainer/models/roberta_pretrained.h"
#include "millrace/trainer/tensor/bce_with_logits.h"
#include "millrace/trainer/tensor/concat.h"
#include "millrace/trainer/tensor/linear.h"
#include "millrace/trainer/tensor/mean_pool.h"
#include "millrace/trainer/tensor/multiply.h"
#include "millrace/trainer/tensor/relu.h"
#include "millrace/trainer/tensor/sigmoid.h"
#include "millrace/trainer/tensor/sum.h"

namespace millrace {
namespace {

constexpr std::string_view kJoint = "joint";

}  // namespace

QuestionAnswerRoberta::QuestionAnswerRoberta(const RobertaConfig& config, const QuestionAnswerTargets& targets,
                                             QuestionAnswerOptions options)
    : encoder_(layout_, config), options_(std::move(options)) {
  add_head("question", targets.question, config.hidden_size);
  add_head("answer", targets.answer, config.hidden_size);
  add_head(kJoint.data(), targets.joint, 3 * config.hidden_size);
  std::vector<bool> is_there(static_cast<size_t>(num_targets_));
  for (const Head& head : heads_) {
    for (const int64_t target : head.targets) {
      if (target >= 0 && target < num_targets_) is_there[static_cast<size_t>(target)] = true;
    }
  }
  if (num_targets_ == 0 || std::ranges::count(is_there, true) != num_targets_) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{} targets of the heads are not the numbers from 0, each once", num_targets_));
  }
  layout_.finish();
}

void QuestionAnswerRoberta::add_head(const char* name, const std::vector<int64_t>& targets, int64_t width) {
  if (targets.empty()) return;
  const int64_t narrow = std::max<int64_t>(1, width / 4);
  const auto add = [&](const char* part, int64_t out, int64_t in) {
    const std::string dense = fmt::format("heads.{}.{}", name, part);
    const int weight = layout_.add(dense + ".weight", {out, in});
    return Dense{.weight = weight, .bias = layout_.add(dense + ".bias", {out})};
  };
  Head head{.name = name, .targets = targets};
  head.reduce = add("gate.reduce", narrow, width);
  head.expand = add("gate.expand", width, narrow);
  head.output = add("output", std::ssize(targets), width);
  heads_.push_back(std::move(head));
  num_targets_ += std::ssize(targets);
}

std::string QuestionAnswerRoberta::describe() const {
  std::string heads;
  for (const Head& head : heads_) heads += fmt::format(", {}={}", head.name, head.targets);
  return fmt::format("question_answer_roberta({}, dropout={}{})", encoder_.describe(), options_.dropout, heads);
}

void QuestionAnswerRoberta::initialize(std::span<float> weights, uint64_t seed) const {
  encoder_.initialize(layout_, weights, seed);
  if (!options_.encoder_folder.empty()) load_roberta_encoder(options_.encoder_folder, encoder_, layout_, weights);
  for (const Head& head : heads_) {
    for (const Dense* dense : {&head.reduce, &head.expand, &head.output}) {
      const std::vector<int64_t>& shape = layout_.parameters()[static_cast<size_t>(dense->weight)].shape;
      const int64_t fans = dense == &head.output ? shape[1] : shape[0] + shape[1];
      initialize_parameter(layout_, dense->weight, std::sqrt(2.0 / static_cast<double>(fans)), weights, seed);
      initialize_parameter(layout_, dense->bias, 0, weights, seed);
    }
  }
}

template <typename T>
ForwardResult<T> QuestionAnswerRoberta::run(ForwardPass<T>& pass) const {
  Tape<T>& tape = pass.tape();
  const int64_t rows = pass.rows().rows();
  const auto pooled = [&](const std::string& text, uint64_t call) {
    const FeatureView& ids = pass.rows().feature(text + "_ids");
    const RobertaInput input{.rows = rows,
                             .length = ids.row_size(),
                             .first_row = pass.rows().first_row(),
                             .ids = ids.values<int32_t>(),
                             .attention_mask = pass.rows().feature(text + "_mask").template values<int64_t>()};
    const Tensor<T> states = encoder_.encode(tape, input, pass.dropout_key(call)).back();
    return mean_pool(tape, states.reshaped({rows, input.length, states.columns()}), input.attention_mask);
  };
  const auto dense = [&](const Tensor<T>& x, const Dense& parameters) {
    return linear(tape, x, tape.parameter(parameters.weight), tape.parameter(parameters.bias));
  };
  const Tensor<T> q = pooled("question", 0);
  const Tensor<T> a = pooled("answer", 1);
  std::vector<Tensor<T>> of_heads;
  std::vector<int64_t> targets;  // of the columns of all heads
  for (const Head& head : heads_) {
    Tensor<T> x = head.name == std::string_view("question") ? q : a;
    if (head.name == kJoint) x = concat<T>(tape, std::vector<Tensor<T>>{q, a, multiply(tape, q, a)}, 1);
    x = multiply(tape, x, sigmoid(tape, dense(relu(tape, dense(x, head.reduce)), head.expand)));
    x = dropout(tape, x, rows, pass.dropout(options_.dropout, head.name));
    of_heads.push_back(dense(x, head.output));
    targets.insert(targets.end(), head.targets.begin(), head.targets.end());
  }
  const Tensor<T> logits = concat<T>(tape, of_heads, 1);
  const size_t columns = targets.size();
  const auto size = static_cast<size_t>(rows) * columns;
  // Where value i of the heads belongs in the order of the targets.
  const auto place = [&](size_t i) { return i / columns * columns + static_cast<size_t>(targets[i % columns]); };
  ForwardResult<T> result;
  if (pass.predicts()) {
    std::vector<float> values(size);
    for (size_t i = 0; i < size; ++i) values[place(i)] = static_cast<float>(logits.values[i]);
    result.columns = {{.name = "logits", .row_shape = {num_targets_}, .values = std::move(values)}};
  }
  if (const FeatureView* labels = pass.labels()) {
    if (labels->row_size() != num_targets_) {
      throw ErrorException(ErrorCode::kWrongShape, fmt::format("{} labels in a row, the model has {} targets",
                                                               labels->row_size(), num_targets_));
    }
    const std::span<const float> given = labels->values<float>();
    std::vector<float> values(size);
    for (size_t i = 0; i < size; ++i) values[i] = given[place(i)];
    const FeatureView of_columns("labels", pass.keep(values), {rows, num_targets_});
    result.losses.emplace_back(sum(tape, bce_with_logits(tape, logits, pass.constant(of_columns))),
                               static_cast<double>(size));
  }
  return result;
}

}  // namespace millrace
