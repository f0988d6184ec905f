#include "millrace/trainer/tape_model.h"

#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

class TapeWorkspace final : public Workspace {
 public:
  int64_t bytes() const override { return static_cast<int64_t>(arena.capacity()); }

  Arena arena;
  Tape<float> tape{arena};
};

StepResult step_result(const ForwardResult<float>& forward) {
  StepResult result;
  for (size_t i = 0; i < forward.losses.size(); ++i) {
    const ForwardLoss<float>& loss = forward.losses[i];
    if (i > 0) {
      result.more_losses.push_back({.sum = loss.sum, .weight = loss.weight});
    } else {
      result.sum_loss = loss.sum;
      result.weight = loss.weight;
    }
  }
  result.metrics = forward.metrics;
  return result;
}

}  // namespace

template <typename T>
Tensor<T> ForwardPass<T>::constant(const FeatureView& feature) const {
  const std::span<const float> values = feature.values<float>();
  const TensorShape shape(feature.shape());
  if constexpr (std::is_same_v<T, float>) {
    return tape_.constant(values.data(), shape);
  } else {
    T* wider = tape_.template keep<T>(std::ssize(values));
    std::copy(values.begin(), values.end(), wider);
    return tape_.constant(wider, shape);
  }
}

template <typename T>
ForwardLoss<T>::ForwardLoss(const Tensor<T>& loss, double divided_by) : tensor(loss), weight(divided_by) {
  if (loss.count() != 1) {
    throw ErrorException(ErrorCode::kWrongShape,
                         fmt::format("a loss of {} values; `sum` makes one of them", loss.count()));
  }
  sum = static_cast<double>(*loss.values);
}

template <typename T>
void need_losses(const ParameterLayout& layout, const ForwardResult<T>& result) {
  if (std::ssize(result.losses) == layout.num_losses()) return;
  throw ErrorException(ErrorCode::kInvalidArgument,
                       fmt::format("the model's forward pass gave {} losses; its parameters follow {}",
                                   result.losses.size(), layout.num_losses()));
}

std::vector<int> parameters_of_loss(const ParameterLayout& layout, int loss,
                                    std::optional<std::span<const int>> among) {
  std::vector<int> ids;
  const auto take = [&](int id) {
    if (layout.parameters()[static_cast<size_t>(id)].loss == loss) ids.push_back(id);
  };
  if (among) {
    std::ranges::for_each(*among, take);
  } else {
    for (int id = 0; id < static_cast<int>(layout.parameters().size()); ++id) take(id);
  }
  return ids;
}

std::unique_ptr<Workspace> TapeModel::make_workspace() const { return std::make_unique<TapeWorkspace>(); }

Tape<float>& TapeModel::tape_of(Workspace& workspace) { return static_cast<TapeWorkspace&>(workspace).tape; }

StepResult TapeModel::train_step(const BatchView& rows, const float* weights, ReplicaContext& context) const {
  Tape<float>& tape = tape_of(*context.workspace);
  tape.begin(layout_, weights,
             {.values = context.gradients.data(), .listener = context.listener, .storage = context.activations});
  ForwardPass<float> pass(tape, rows, PassPurpose::kTraining, {.seed = context.seed, .batch = context.batch});
  const ForwardResult<float> result = forward(pass);
  need_losses(layout_, result);
  const auto scale = static_cast<float>(context.loss_scale);
  if (result.losses.size() == 1) {
    tape.backward(result.losses.front().tensor, {&scale, 1}, context.trainable);
  } else {
    for (int loss = 0; loss < layout_.num_losses(); ++loss) {
      const std::vector<int> ids = parameters_of_loss(layout_, loss, context.trainable);
      tape.backward(result.losses[static_cast<size_t>(loss)].tensor, {&scale, 1}, ids);
    }
  }
  return step_result(result);
}

StepResult TapeModel::evaluate(const BatchView& rows, const float* weights, Workspace& workspace) const {
  Tape<float>& tape = tape_of(workspace);
  tape.begin(layout_, weights);
  ForwardPass<float> pass(tape, rows, PassPurpose::kEvaluation);
  const ForwardResult<float> result = forward(pass);
  need_losses(layout_, result);
  return step_result(result);
}

Predictions TapeModel::predict(const BatchView& rows, const float* weights, Workspace& workspace) const {
  Tape<float>& tape = tape_of(workspace);
  tape.begin(layout_, weights);
  ForwardPass<float> pass(tape, rows, PassPurpose::kPrediction);
  ForwardResult<float> result = forward(pass);
  if (!result.losses.empty()) need_losses(layout_, result);
  if (result.columns.empty()) return Model::predict(rows, weights, workspace);
  return {.rows = rows.rows(), .columns = std::move(result.columns), .result = step_result(result)};
}

ForwardResult<double> TapeModel::forward_in_double(ForwardPass<double>&) const {
  throw ErrorException(ErrorCode::kInvalidArgument, "this model has no forward pass in double precision");
}

template <typename T>
PredictedColumn predicted_column(const std::string& name, const Tensor<T>& values) {
  std::vector<float> column(static_cast<size_t>(values.count()));
  std::transform(values.values, values.values + values.count(), column.begin(),
                 [](T value) { return static_cast<float>(value); });
  const auto sizes = values.shape.sizes();
  std::vector<int64_t> row_shape;
  if (!sizes.empty()) row_shape.assign(sizes.begin() + 1, sizes.end());
  return {.name = name, .row_shape = std::move(row_shape), .values = std::move(column)};
}

template <typename T>
std::vector<int32_t> largest_in_rows(const Tensor<T>& values) {
  std::vector<int32_t> places(static_cast<size_t>(values.rows()));
  for (size_t row = 0; row < places.size(); ++row) {
    const T* begin = values.values + static_cast<int64_t>(row) * values.columns();
    places[row] = static_cast<int32_t>(std::max_element(begin, begin + values.columns()) - begin);
  }
  return places;
}

template <typename T>
PredictedColumn largest_column(const std::string& name, const Tensor<T>& values) {
  return {.name = name, .row_shape = {}, .values = largest_in_rows(values)};
}

template Tensor<float> ForwardPass<float>::constant(const FeatureView&) const;
template Tensor<double> ForwardPass<double>::constant(const FeatureView&) const;
template struct ForwardLoss<float>;
template struct ForwardLoss<double>;
template PredictedColumn predicted_column(const std::string&, const Tensor<float>&);
template PredictedColumn predicted_column(const std::string&, const Tensor<double>&);
template PredictedColumn largest_column(const std::string&, const Tensor<float>&);
template PredictedColumn largest_column(const std::string&, const Tensor<double>&);
template std::vector<int32_t> largest_in_rows(const Tensor<float>&);
template std::vector<int32_t> largest_in_rows(const Tensor<double>&);
template void need_losses(const ParameterLayout&, const ForwardResult<float>&);
template void need_losses(const ParameterLayout&, const ForwardResult<double>&);

}  // namespace millrace
