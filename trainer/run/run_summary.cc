#include "millrace/trainer/run/run_summary.h"

#include <algorithm>
#include <iostream>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "millrace/formats/json/names.h"
#include "millrace/trainer/report_json.h"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

double peak_rss_mb() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

Json json_of(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

void print_json(const RunSummary& summary) {
  const TrainingSummary& training = summary.training;
  const TrainingReport& whole = training.whole;
  Json json = {{"steps", training.step}, {"first_loss", json_of(training.first_loss)}};
  json["evaluation_loss"] = nullptr;
  json["evaluation_rows"] = nullptr;
  if (const auto& evaluation = training.last_evaluation) {
    json["evaluation_loss"] = evaluation->loss;
    json["evaluation_rows"] = evaluation->rows;
    for (const MetricValue& metric : evaluation->metrics) json["evaluation_" + metric.name] = metric.value;
  }
  for (const SummaryLine& line : summary.lines) json[line.key] = json_of(line.value);
  json["seconds"] = whole.seconds;
  json["tokens_per_s"] = whole.tokens_per_s;
  json["input_wait_share"] = whole.input_wait_share;
  json["after_backward_share"] = whole.after_backward_share;
  json["time"] = time_to_json(whole);
  json["limiting_stage"] = whole.limiting_stage;
  json["distinct_shapes"] = summary.num_shapes;
  json["skipped_updates"] = whole.skipped_updates;
  json["threads"] = summary.threads;
  json["peak_rss_mb"] = peak_rss_mb();
  json["model"] = summary.model.empty() ? Json() : Json(summary.model);
  for (const BestModel& best : training.best_models) {
    json["best"].push_back({{"step", best.step}, {"evaluation_" + summary.best_by, best.value}, {"model", best.path}});
  }
  if (summary.skipped) {
    const SkipCounts& counts = summary.skipped->counts;
    json["skipped"] = {{"regions", counts.regions},
                       {"records", counts.records},
                       {"regions_of_unknown_records", counts.regions_of_unknown_records},
                       {"bytes", counts.bytes},
                       {"list", summary.skipped_list}};
  }
  std::cout << json_line(json) << "\n";
}

void row(std::string_view name, const std::string& value) { std::cout << fmt::format("{:<22}{}\n", name, value); }

void print_table(const RunSummary& summary) {
  const TrainingSummary& training = summary.training;
  const TrainingReport& whole = training.whole;
  row("steps", fmt::format("{}", training.step));
  if (training.first_loss) row("first loss", value_text(*training.first_loss));
  if (const auto& evaluation = training.last_evaluation) {
    std::string text = fmt::format("{}  over {} rows", value_text(evaluation->loss), evaluation->rows);
    for (const MetricValue& metric : evaluation->metrics)
      text += fmt::format(", {} {}", metric.name, value_text(metric.value));
    row("evaluation loss", text);
  }
  for (const SummaryLine& line : summary.lines) {
    if (!line.text.empty()) row(line.name, line.text);
  }
  row("time in steps", fmt::format("{:.1f} s, {:.0f} {} on {} threads", whole.seconds,
                                   whole.tokens > 0 ? whole.tokens_per_s : whole.rows_per_s,
                                   whole.tokens > 0 ? "tokens/s" : "rows/s", summary.threads));
  // A consumer that the input waits for limits nothing.
  const bool named = !whole.limiting_stage.empty() && whole.limiting_stage != "consumer";
  row("waiting for input", fmt::format("{:.2f}%{}", 100 * whole.input_wait_share,
                                       named ? ", limited by " + whole.limiting_stage : std::string()));
  const double all = std::max(1e-12, whole.seconds);
  row("time in a step", fmt::format("forward {:.1f}%, backward {:.1f}%, reduce {:.1f}%, optimizer {:.1f}%",
                                    100 * whole.phases.forward / all, 100 * whole.phases.backward / all,
                                    100 * whole.phases.reduce / all, 100 * whole.phases.optimizer / all));
  if (summary.num_shapes > 1) row("distinct shapes", fmt::format("{}", summary.num_shapes));
  row("peak RSS", fmt::format("{:.0f} MB", peak_rss_mb()));
  if (!summary.model.empty()) row("model", summary.model);
  for (const BestModel& best : training.best_models) {
    row("best model", fmt::format("{}  evaluation {} {}", best.path, summary.best_by, value_text(best.value)));
  }
  if (summary.skipped) std::cout << summary.skipped->to_string();
}

}  // namespace

void print_summary(const RunSummary& summary, bool json) {
  if (json) {
    print_json(summary);
  } else {
    print_table(summary);
  }
}

}  // namespace millrace
