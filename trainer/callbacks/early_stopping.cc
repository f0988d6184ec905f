#include "millrace/trainer/callbacks/early_stopping.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/json/parse_json.h"

namespace millrace {

EarlyStopping::EarlyStopping(EarlyStoppingOptions options) : options_(std::move(options)) {
  options_.better = better_of(options_.metric, options_.better);
  if (options_.patience >= 0 && options_.least_improvement >= 0) return;
  throw ErrorException(ErrorCode::kInvalidArgument,
                       fmt::format("patience is {} and least_improvement {}; at least 0 is needed for both",
                                   options_.patience, options_.least_improvement));
}

void EarlyStopping::train_starts(const TrainingStart& start) {
  if (start.need_evaluation_value) start.need_evaluation_value(options_.metric);
}

void EarlyStopping::evaluation_ends(const EvaluationReport& report) {
  if (report.step <= evaluated_at_ || report.step <= options_.after_step) return;
  evaluated_at_ = report.step;
  const double value = report.value(options_.metric);
  const double gain = !best_ ? 0 : *options_.better == Better::kLower ? *best_ - value : value - *best_;
  if (std::isfinite(value) && (!best_ || gain > options_.least_improvement)) {
    best_ = value;
    without_improvement_ = 0;
  } else {
    ++without_improvement_;
  }
}

std::string EarlyStopping::state_name() const {
  return fmt::format("early_stopping({}, {})", options_.metric,
                     *options_.better == Better::kLower ? "lower" : "higher");
}

std::string EarlyStopping::save_state() const {
  nlohmann::json json = {
      {"metric", options_.metric}, {"without_improvement", without_improvement_}, {"evaluated_at", evaluated_at_}};
  if (best_) json["best"] = *best_;
  return json.dump();
}

void EarlyStopping::restore_state(const std::string& state) {
  try {
    const nlohmann::json json = parse_json(state, "state of early_stopping");
    const auto metric = json.at("metric").get<std::string>();
    if (metric != options_.metric) {
      throw ErrorException(
          ErrorCode::kInvalidArgument,
          fmt::format("the checkpoint's early stopping looks at {}, this run's at {}", metric, options_.metric));
    }
    without_improvement_ = json.at("without_improvement").get<int64_t>();
    evaluated_at_ = json.at("evaluated_at").get<int64_t>();
    best_.reset();
    if (json.contains("best")) best_ = json.at("best").get<double>();
  } catch (const nlohmann::json::exception& error) {
    throw ErrorException(ErrorCode::kParse, fmt::format("state of early_stopping: {}", error.what()));
  }
}

}  // namespace millrace
