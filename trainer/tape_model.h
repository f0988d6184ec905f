#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/trainer/model.h"
#include "millrace/trainer/tensor/cross_entropy.h"
#include "millrace/trainer/tensor/dropout.h"
#include "millrace/trainer/tensor/tape.h"

namespace millrace {

/// What a forward pass is made for.
enum class PassPurpose {
  kTraining,    ///< with dropout; losses are needed
  kEvaluation,  ///< losses are needed
  kPrediction,  ///< columns are wanted, and losses where the rows have labels
};

/// One forward pass of a `TapeModel`: rows, weights (through the tape) and what it is for. T is float or double. Valid
/// until the tape begins anew.
template <typename T>
class ForwardPass {
 public:
  /// `seed` and `batch` as in `ReplicaContext`; used in training only.
  ForwardPass(Tape<T>& tape, const BatchView& rows, PassPurpose purpose, DropoutKey key = {})
      : tape_(tape), rows_(rows), purpose_(purpose), key_(key) {
    tape.set_rows(rows);
  }

  Tape<T>& tape() const { return tape_; }
  const BatchView& rows() const { return rows_; }
  bool trains() const { return purpose_ == PassPurpose::kTraining; }
  bool predicts() const { return purpose_ == PassPurpose::kPrediction; }

  /// The labels of the rows, or null where they may be missing and are: in a prediction. Throws `kMissingFeature`.
  const FeatureView* labels(std::string_view feature = "labels") const {
    return predicts() ? rows_.find(feature) : &rows_.feature(feature);
  }
  /// A float feature as a constant of the tape, of the feature's shape. Throws `kMissingFeature` and `kWrongShape`.
  Tensor<T> constant(std::string_view feature) const { return constant(rows_.feature(feature)); }
  Tensor<T> constant(const FeatureView& feature) const;
  /// A copy of values for as long as the tape's step lasts, as operators want ids, labels and masks.
  template <typename U>
  std::span<const U> keep(std::span<const U> values) const {
    U* kept = tape_.template keep<U>(std::ssize(values));
    std::copy(values.begin(), values.end(), kept);
    return {kept, values.size()};
  }
  template <typename U>
  std::span<const U> keep(const std::vector<U>& values) const {
    return keep(std::span<const U>(values));
  }

  /// The dropout of one place, by a name of its own; drops nothing unless the pass trains. Throws as `DropoutMask`.
  DropoutMask dropout(double probability, std::string_view place) const {
    if (!trains()) return {};
    const std::span<const char> name = keep(std::span<const char>(place));
    return {probability, key_.seed, key_.batch, std::string_view(name.data(), name.size()), rows_.first_row()};
  }
  /// For parts of a model that place their dropouts themselves, as `RobertaEncoder::encode`: null unless the pass
  /// trains. `call`: which call of the part in the pass, where there are several. Default: 0
  const DropoutKey* dropout_key(uint64_t call = 0) const {
    if (!trains()) return nullptr;
    return new (tape_.template keep<DropoutKey>(1)) DropoutKey{.seed = key_.seed, .batch = key_.batch, .call = call};
  }

 private:
  Tape<T>& tape_;
  const BatchView& rows_;
  PassPurpose purpose_;
  DropoutKey key_;
};

/// A loss of a forward pass: a sum over rows, labels, ..., and the weight that it is to be divided by (their number).
template <typename T>
struct ForwardLoss {
  /// Of `cross_entropy`: its weight is the number of labels.
  explicit ForwardLoss(const SummedLoss<T>& loss)
      : tensor(loss.tensor), sum(loss.sum), weight(static_cast<double>(loss.num_labels)) {}
  /// Of one value (`sum`). Throws `kWrongShape` for a tensor of more.
  ForwardLoss(const Tensor<T>& loss, double divided_by);

  Tensor<T> tensor = {};
  double sum = 0;
  double weight = 0;
};

/// What a forward pass gives.
template <typename T>
struct ForwardResult {
  /// In the order of `Parameter::loss`; none only in a prediction of rows without labels.
  std::vector<ForwardLoss<T>> losses = {};
  std::vector<MetricSum> metrics = {};        ///< reported beside the loss. Default: none
  std::vector<PredictedColumn> columns = {};  ///< read in a prediction only. Default: none
};

/// A model that is written as one forward pass on a tape: training, evaluation and prediction are made of it. A model
/// registers its parameters in `layout_` and finishes it, says its start values, and writes `forward`:
///
///     class Regression final : public TapeModel {
///      public:
///       Regression() : weight_(layout_.add("weight", {1, 4})), bias_(layout_.add("bias", {1})) { layout_.finish(); }
///       void initialize(std::span<float> weights, uint64_t seed) const override {
///         for (const int id : {weight_, bias_}) initialize_parameter(layout_, id, 0.5, weights, seed);
///       }
///       ForwardResult<float> forward(ForwardPass<float>& pass) const override { return run(pass); }
///       ForwardResult<double> forward_in_double(ForwardPass<double>& pass) const override { return run(pass); }
///
///      private:
///       template <typename T>
///       ForwardResult<T> run(ForwardPass<T>& pass) const {
///         Tape<T>& tape = pass.tape();
///         const Tensor<T> y = linear(tape, pass.constant("x"), tape.parameter(weight_), tape.parameter(bias_));
///         ForwardResult<T> result;
///         if (pass.predicts()) result.columns = {predicted_column("y", y)};
///         if (const FeatureView* labels = pass.labels("y")) {
///           const Tensor<T> errors = squared_error(tape, y, pass.constant(*labels).reshaped(y.shape));
///           result.losses = {ForwardLoss<T>(sum(tape, errors), static_cast<double>(pass.rows().rows()))};
///         }
///         return result;
///       }
///       int weight_, bias_;
///     };
///
/// `forward` is const and called by several threads at once, each with a tape of its own. `check_gradients`
/// (`trainer/gradient_check.h`) compares its gradients with differences of its losses.
class TapeModel : public Model {
 public:
  const ParameterLayout& layout() const final { return layout_; }
  std::unique_ptr<Workspace> make_workspace() const final;
  StepResult train_step(const BatchView& rows, const float* weights, ReplicaContext& context) const final;
  StepResult evaluate(const BatchView& rows, const float* weights, Workspace& workspace) const final;
  /// The columns of `forward`, and its losses where the rows have labels.
  Predictions predict(const BatchView& rows, const float* weights, Workspace& workspace) const override;

  /// The losses of at least one row, and what the model says of each where `pass.predicts()`. As many losses as the
  /// layout's parameters follow are needed, except in a prediction.
  virtual ForwardResult<float> forward(ForwardPass<float>& pass) const = 0;
  /// The same in double precision, for `check_gradients`: one template serves both. Default: throws `kInvalidArgument`
  virtual ForwardResult<double> forward_in_double(ForwardPass<double>& pass) const;

 protected:
  /// The tape of a workspace of this model, for predictions that are no single pass.
  static Tape<float>& tape_of(Workspace& workspace);

  ParameterLayout layout_;
};

/// A column of one row of `values` for each row, rounded to float32: scores `[rows]` or `[rows, n]`.
template <typename T>
PredictedColumn predicted_column(const std::string& name, const Tensor<T>& values);
/// A column of the place of the largest value in each of the tensor's rows (of equal ones the first): int32 `[rows]`.
template <typename T>
PredictedColumn largest_column(const std::string& name, const Tensor<T>& values);
/// The same places alone.
template <typename T>
std::vector<int32_t> largest_in_rows(const Tensor<T>& values);

/// Throws `kInvalidArgument` unless there are as many losses as the layout's parameters follow.
template <typename T>
void need_losses(const ParameterLayout& layout, const ForwardResult<T>& result);

/// The ids of the parameters that follow a loss. `among`: these only. Default: all.
std::vector<int> parameters_of_loss(const ParameterLayout& layout, int loss,
                                    std::optional<std::span<const int>> among = std::nullopt);

}  // namespace millrace
