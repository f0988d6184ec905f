#include "millrace/trainer/callbacks/jsonl_log.h"

#include <fstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "millrace/trainer/report_json.h"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

// Names in it (paths, stages) may be any bytes; JSON is UTF-8.
std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

Json by_name(const std::vector<MetricValue>& metrics) {
  Json json = Json::object();
  for (const MetricValue& metric : metrics) json[metric.name] = metric.value;
  return json;
}

void add(Json& json, const TrainingReport& report) {
  json["step"] = report.step;
  json["epoch"] = report.epoch;
  json["steps"] = report.steps;
  json["loss"] = report.loss;
  json["learning_rate"] = report.learning_rate;
  for (const GroupRate& group : report.learning_rates) json["learning_rates"][group.parameters] = group.learning_rate;
  json["gradient_norm"] = report.gradient_norm;
  json["rows"] = report.rows;
  json["tokens"] = report.tokens;
  json["seconds"] = report.seconds;
  json["rows_per_s"] = report.rows_per_s;
  json["tokens_per_s"] = report.tokens_per_s;
  json["input_wait_share"] = report.input_wait_share;
  json["after_backward_share"] = report.after_backward_share;
  json["time"] = time_to_json(report);
  json["metrics"] = by_name(report.metrics);
  json["skipped_updates"] = report.skipped_updates;
  json["last_skip"] = report.last_skip;
  json["limiting_stage"] = report.limiting_stage;
}

}  // namespace

JsonlLog::JsonlLog(const std::string& path, Shown shown) : file_(path, GrowingFrom::kEnd), shown_(std::move(shown)) {
  // A torn last line must not swallow the next one.
  std::ifstream there(path, std::ios::binary | std::ios::ate);
  if (there && there.tellg() > 0 && there.seekg(-1, std::ios::end) && there.get() != '\n') write("\n");
}

void JsonlLog::train_starts(const TrainingStart& start) {
  write(line_of({{"event", "start"},
                 {"step", start.step},
                 {"total_steps", start.total_steps},
                 {"num_parameters", start.num_parameters},
                 {"num_trained", start.num_trained},
                 {"replicas", start.replicas},
                 {"accumulate", start.accumulate},
                 {"seed", start.seed},
                 {"optimizer", start.optimizer},
                 {"schedule", start.schedule}}));
}

void JsonlLog::phase_begins(const PhaseStart& start) {
  write(line_of({{"event", "phase"},
                 {"step", start.step},
                 {"phase", start.number + 1},
                 {"num_trained", start.num_trained},
                 {"optimizer", start.optimizer},
                 {"schedule", start.schedule}}));
}

void JsonlLog::step_ends(const StepEnd& end) {
  if (end.step.updated) return;
  write(line_of(
      {{"event", "skip"}, {"step", end.since_report.step}, {"loss", end.step.loss}, {"reason", end.step.skip_reason}}));
}

void JsonlLog::report(const TrainingReport& report) {
  Json json = {{"event", "report"}};
  add(json, report);
  write(line_of(json));
}

void JsonlLog::evaluation_ends(const EvaluationReport& report) {
  write(line_of({{"event", "evaluation"},
                 {"step", report.step},
                 {"loss", report.loss},
                 {"sum_loss", report.sum_loss},
                 {"weight", report.weight},
                 {"rows", report.rows},
                 {"seconds", report.seconds},
                 {"metrics", by_name(report.metrics)}}));
}

void JsonlLog::model_kept(const ModelKept& kept) {
  Json best = Json::array();
  for (const BestModel& model : kept.best) {
    best.push_back({{"step", model.step}, {"value", model.value}, {"path", shown(model.path)}});
  }
  write(line_of({{"event", "best"}, {"step", kept.model.step}, {"metric", kept.metric}, {"best", std::move(best)}}));
}

void JsonlLog::epoch_ends(const EpochEnd& end) {
  write(line_of({{"event", "epoch"}, {"step", end.step}, {"epoch", end.epoch}}));
}

void JsonlLog::checkpoint_written(const std::string& path) {
  write(line_of({{"event", "checkpoint"}, {"path", shown(path)}}));
}

void JsonlLog::train_ends(const TrainingSummary& summary) {
  Json json = {{"event", "end"},
               {"stopped", summary.stopped},
               {"data_ended", summary.data_ended},
               {"first_loss", summary.first_loss ? nlohmann::ordered_json(*summary.first_loss) : nullptr},
               {"threads", summary.threads},
               {"last_checkpoint", shown(summary.last_checkpoint)}};
  add(json, summary.whole);
  write(line_of(json));
}

}  // namespace millrace
