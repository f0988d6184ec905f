#include "millrace/trainer/trainer_options.h"

#include <utility>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/trainer/metrics/metric_values.h"

namespace millrace {
namespace {

std::string to_string(Normalization mode) {
  switch (mode) {
    case Normalization::kGlobalMean: return "global_mean";
    case Normalization::kMeanOfReplicaMeans: return "mean_of_replica_means";
    case Normalization::kSumOfReplicaMeans: return "sum_of_replica_means";
    case Normalization::kScaled: return "scaled";
  }
  return "";
}

}  // namespace

void TrainerOptions::check() const {
  const auto need = [](bool holds, std::string message) {
    if (!holds) throw ErrorException(ErrorCode::kInvalidArgument, std::move(message));
  };
  step.check();
  need(accumulate >= 1 && accumulate <= kMostAccumulate,
       fmt::format("accumulate is {}; 1 to {} are possible", accumulate, kMostAccumulate));
  need(total_steps >= 0 && total_steps <= kMostSteps,
       fmt::format("total_steps is {}; 0 to {} are possible", total_steps, kMostSteps));
  need(report_every >= 1, fmt::format("report_every is {}; at least 1 is needed", report_every));
  need(evaluate_every >= 0, fmt::format("evaluate_every is {}; at least 0 is needed", evaluate_every));
  need(evaluate_every_epochs >= 1,
       fmt::format("evaluate_every_epochs is {}; at least 1 is needed", evaluate_every_epochs));
  need(checkpoint_every_epochs >= 1,
       fmt::format("checkpoint_every_epochs is {}; at least 1 is needed", checkpoint_every_epochs));
  need(evaluate_every == 0 || evaluation, "evaluate_every is set, but there is nothing to evaluate on");
  need(!keep_best || evaluation, "keep_best is set, but there is nothing to evaluate on");
  need(checkpoint_every >= 0, fmt::format("checkpoint_every is {}; at least 0 is needed", checkpoint_every));
  need(checkpoint_every == 0 || !checkpoint_folder.empty(),
       "checkpoint_every is set, but there is no checkpoint_folder");
  if (metrics) check_names(values_of(metrics()));
  if (loss_scaling) loss_scaling->check();
  need(most_skipped_in_a_row >= 0,
       fmt::format("most_skipped_in_a_row is {}; at least 0 is needed", most_skipped_in_a_row));
}

std::string TrainerOptions::describe_gradients(const std::string& frozen_parameters) const {
  const GradientNormalization& normalization = step.normalization;
  std::string text = to_string(normalization.mode);
  if (normalization.mode == Normalization::kScaled) text += fmt::format("({})", normalization.scale);
  if (const auto& clipping = step.clipping) {
    text += fmt::format(", clipped to {} ({}{})", clipping->norm, clipping->form == ClipForm::kTf ? "tf" : "torch",
                        clipping->per_replica ? ", each replica" : "");
  }
  if (!frozen_parameters.empty()) text += fmt::format(", without '{}'", frozen_parameters);
  if (step.activations == ActivationStorage::kBfloat16) text += ", activations in bfloat16";
  if (loss_scaling) text += ", " + loss_scaling->describe();
  return text;
}

}  // namespace millrace
