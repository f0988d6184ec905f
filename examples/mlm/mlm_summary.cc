#include "examples/mlm/mlm_summary.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "millrace/formats/json/names.h"

namespace millrace {
namespace {

double peak_rss_mb() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

double uniform_loss(const MlmSummary& summary) { return std::log(static_cast<double>(summary.vocab_size)); }

void print_json(const MlmSummary& summary) {
  const TrainingSummary& training = summary.training;
  const TrainingReport& whole = training.whole;
  nlohmann::ordered_json json = {{"steps", training.step},
                                 {"first_loss", nullptr},
                                 {"ln_vocab_size", uniform_loss(summary)},
                                 {"evaluation_loss", nullptr},
                                 {"evaluation_rows", nullptr},
                                 {"evaluation_accuracy", nullptr},
                                 {"unigram_entropy", nullptr},
                                 {"seconds", whole.seconds},
                                 {"tokens_per_s", whole.tokens_per_s},
                                 {"input_wait_share", whole.input_wait_share},
                                 {"after_backward_share", whole.after_backward_share},
                                 {"time",
                                  {{"input", whole.seconds * whole.input_wait_share},
                                   {"forward", whole.phases.forward},
                                   {"backward", whole.phases.backward},
                                   {"reduce", whole.phases.reduce},
                                   {"optimizer", whole.phases.optimizer},
                                   {"callbacks", whole.callback_seconds}}},
                                 {"limiting_stage", whole.limiting_stage},
                                 {"skipped_updates", whole.skipped_updates},
                                 {"threads", summary.threads},
                                 {"peak_rss_mb", peak_rss_mb()},
                                 {"model", nullptr}};
  if (training.first_loss) json["first_loss"] = *training.first_loss;
  if (training.last_evaluation) {
    json["evaluation_loss"] = training.last_evaluation->loss;
    json["evaluation_rows"] = training.last_evaluation->rows;
    json["evaluation_accuracy"] = training.last_evaluation->value("accuracy");
  }
  if (summary.unigram_entropy) json["unigram_entropy"] = *summary.unigram_entropy;
  if (!summary.model.empty()) json["model"] = summary.model;
  for (const BestModel& best : training.best_models) {
    json["best"].push_back({{"step", best.step}, {"evaluation_loss", best.value}, {"model", best.path}});
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

void print_table(const MlmSummary& summary) {
  const TrainingSummary& training = summary.training;
  const TrainingReport& whole = training.whole;
  row("steps", fmt::format("{}", training.step));
  if (training.first_loss) {
    row("first loss",
        fmt::format("{:.4f}  (ln of the vocabulary: {:.4f})", *training.first_loss, uniform_loss(summary)));
  }
  if (training.last_evaluation) {
    row("evaluation loss",
        fmt::format("{:.4f}  over {} rows, {:.1f}% of the masked tokens right", training.last_evaluation->loss,
                    training.last_evaluation->rows, 100 * training.last_evaluation->value("accuracy")));
  }
  if (summary.unigram_entropy) row("unigram entropy", fmt::format("{:.4f}", *summary.unigram_entropy));
  row("time in steps",
      fmt::format("{:.1f} s, {:.0f} tokens/s on {} threads", whole.seconds, whole.tokens_per_s, summary.threads));
  // A consumer that the input waits for limits nothing.
  const bool named = !whole.limiting_stage.empty() && whole.limiting_stage != "consumer";
  row("waiting for input", fmt::format("{:.2f}%{}", 100 * whole.input_wait_share,
                                       named ? ", limited by " + whole.limiting_stage : std::string()));
  const double all = std::max(1e-12, whole.seconds);
  row("time in a step", fmt::format("forward {:.1f}%, backward {:.1f}%, reduce {:.1f}%, optimizer {:.1f}%",
                                    100 * whole.phases.forward / all, 100 * whole.phases.backward / all,
                                    100 * whole.phases.reduce / all, 100 * whole.phases.optimizer / all));
  row("peak RSS", fmt::format("{:.0f} MB", peak_rss_mb()));
  if (!summary.model.empty()) row("model", summary.model);
  for (const BestModel& best : training.best_models) {
    row("best model", fmt::format("{}  evaluation loss {:.4f}", best.path, best.value));
  }
  if (summary.skipped) std::cout << summary.skipped->to_string();
}

}  // namespace

void print_mlm_summary(const MlmSummary& summary, bool json) {
  if (json) {
    print_json(summary);
  } else {
    print_table(summary);
  }
}

}  // namespace millrace
