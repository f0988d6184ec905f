// How a RunSpec is printed.
#include <algorithm>
#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/json/names.h"
#include "millrace/formats/utf8.h"
#include "millrace/trainer/run/run_spec.h"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kNotKnown = "not known";

template <typename T>
Json json_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

template <typename T>
Json json_unless_empty(const std::vector<T>& values) {
  return values.empty() ? Json() : Json(values);
}

int64_t steps_in_all(const RunSpec& spec) {
  const RunPhase& last = spec.phases.back().phase;
  return last.first_step + last.steps;
}

std::optional<double> epochs_of(const RunSpec& spec) {
  if (spec.phases.empty() || !spec.steps_per_epoch) return std::nullopt;
  return static_cast<double>(steps_in_all(spec)) / static_cast<double>(*spec.steps_per_epoch);
}

void print_json(const RunSpec& spec) {
  Json json = {{"why_not_known", spec.why_not_known.empty() ? Json() : Json(spec.why_not_known)},
               {"model", json_of(spec.model)},
               {"parameters", json_of(spec.num_parameters)},
               {"phases", Json()}};
  for (const RunSpec::Phase& phase : spec.phases) {
    json["phases"].push_back({{"first_step", phase.phase.first_step},
                              {"steps", phase.phase.steps},
                              {"warmup_steps", phase.phase.warmup_steps},
                              {"optimizer", phase.optimizer},
                              {"schedule", phase.phase.schedule()->describe()},
                              {"frozen", phase.phase.options.freeze},
                              {"trained", json_of(phase.num_trained)}});
  }
  json["steps"] = spec.phases.empty() ? Json() : Json(steps_in_all(spec));
  json["resumed_at"] = json_of(spec.resumed_at);
  json["batches_per_epoch"] = json_of(spec.batches_per_epoch);
  json["steps_per_epoch"] = json_of(spec.steps_per_epoch);
  json["leaves_damage_out"] = spec.leaves_damage_out;
  json["epochs"] = json_of(epochs_of(spec));
  json["features"] = nullptr;
  for (const FeatureSpec& feature : spec.features) {
    json["features"].push_back({{"name", feature.name}, {"dtype", to_string(feature.dtype)}, {"shape", feature.shape}});
  }
  json["batches_looked_at"] = spec.batches_looked_at;
  json["distinct_shapes"] = spec.batches_looked_at > 0 ? Json(spec.num_shapes) : Json();
  json["padding"] = spec.padding ? Json::object() : Json();
  if (spec.padding) {
    for (const auto& [feature, share] : *spec.padding) json["padding"][feature] = share;
  }
  json["dropped_rows"] = json_of(spec.dropped_rows);
  json["short_batch"] = json_of(spec.short_batch);
  json["rows_per_replica"] = spec.rows_per_replica;
  json["rows_per_replica_of_short_batch"] = json_unless_empty(spec.rows_per_replica_of_short_batch);
  json["memory"] = nullptr;
  if (const auto& memory = spec.memory) {
    json["memory"] = {{"weights", memory->weights},
                      {"slots", memory->slots},
                      {"gradients", memory->gradients},
                      {"gradient_buffers", memory->gradient_buffers},
                      {"activations", memory->activations > 0 ? Json(memory->activations) : Json()},
                      {"pipeline", memory->pipeline},
                      {"cache", memory->cache},
                      {"pipeline_budget", memory->pipeline_budget}};
  }
  std::cout << json_line(json) << "\n";
}

void row(std::string_view name, std::string_view value) {
  std::cout << fmt::format("{:<22}{}\n", name, value.empty() ? kNotKnown : value);
}

std::string phase_text(const RunSpec::Phase& phase) {
  const RunPhase& p = phase.phase;
  std::string text = fmt::format("steps {} to {}", p.first_step + 1, p.first_step + p.steps);
  if (phase.num_trained) text += fmt::format(", {} trained", *phase.num_trained);
  if (!p.options.freeze.empty()) text += fmt::format(" without '{}'", printable(p.options.freeze));
  return text + fmt::format(": {}, {}", phase.optimizer, p.schedule()->describe());
}

std::string steps_text(const RunSpec& spec) {
  std::string text;
  if (!spec.phases.empty()) text = fmt::format("{}", steps_in_all(spec));
  if (const auto epochs = epochs_of(spec)) text += fmt::format(", {:.2f} epochs", *epochs);
  return text;
}

std::string epoch_text(const RunSpec& spec) {
  if (!spec.steps_per_epoch) return "";
  std::string text = fmt::format("{} batches in {} steps", *spec.batches_per_epoch, *spec.steps_per_epoch);
  if (spec.leaves_damage_out) text += " if no row is left out";
  if (!spec.short_batch) return text + ", a remainder is not known";
  if (*spec.short_batch > 0) return text + fmt::format(", the last batch has {} rows", *spec.short_batch);
  return text + fmt::format(", {} rows are dropped", *spec.dropped_rows);
}

std::string features_text(const RunSpec& spec) {
  std::string text;
  for (const FeatureSpec& feature : spec.features) {
    text += fmt::format("{}{} {} [{}]", text.empty() ? "" : ", ", printable(feature.name), to_string(feature.dtype),
                        fmt::join(feature.shape, ","));
  }
  return text;
}

std::string padding_text(const RunSpec& spec) {
  if (!spec.padding) return "";
  if (spec.padding->empty()) return "none: there are no masks";
  std::string text;
  for (const auto& [feature, share] : *spec.padding) {
    text += fmt::format("{}{:.1f}% by {}", text.empty() ? "" : ", ", 100 * share, printable(feature));
  }
  return text + fmt::format(", of the first {} batches", spec.batches_looked_at);
}

// Sizes differ by at most one, the larger ones first.
std::string replicas_text(const std::vector<int64_t>& rows) {
  const auto larger = std::ranges::count(rows, rows.front());
  if (larger == std::ssize(rows)) return fmt::format("{} in each of {}", rows.front(), rows.size());
  return fmt::format("{} in {}, {} in {}", rows.front(), larger, rows.back(), std::ssize(rows) - larger);
}

std::string memory_text(const RunSpec& spec) {
  if (!spec.memory) return "";
  const auto mib = [](int64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); };
  const RunSpec::Memory& memory = *spec.memory;
  const int64_t pipeline = memory.pipeline + memory.cache;
  return fmt::format(
      "{}about {}: weights {}, slots {}, gradients at most {} in {} buffers, activations {}, pipeline {} so far{} of "
      "at most {}",
      memory.activations > 0 ? "" : "more than ",
      mib(memory.weights + memory.slots + memory.gradients + memory.activations + pipeline), mib(memory.weights),
      mib(memory.slots), mib(memory.gradients), memory.gradient_buffers,
      memory.activations > 0 ? mib(memory.activations) : std::string(kNotKnown), mib(memory.pipeline),
      memory.cache > 0 ? fmt::format(" and {} for the rest of its cache,", mib(memory.cache)) : "",
      mib(memory.pipeline_budget));
}

void print_table(const RunSpec& spec) {
  row("model", spec.model && spec.model->empty() ? "no description" : spec.model.value_or(""));
  row("parameters", spec.num_parameters ? fmt::format("{}", *spec.num_parameters) : "");
  if (spec.phases.empty()) row("phase", "");
  for (size_t i = 0; i < spec.phases.size(); ++i) {
    row(spec.phases.size() == 1 ? "phase" : fmt::format("phase {}", i + 1), phase_text(spec.phases[i]));
  }
  row("steps", steps_text(spec));
  if (spec.resumed_at) row("goes on", fmt::format("after step {}", *spec.resumed_at));
  row("an epoch", epoch_text(spec));
  row("a batch", features_text(spec));
  row("distinct shapes", spec.batches_looked_at > 0
                             ? fmt::format("{} in the first {} batches", spec.num_shapes, spec.batches_looked_at)
                             : "");
  row("padding", padding_text(spec));
  row("rows of a replica", replicas_text(spec.rows_per_replica));
  if (!spec.rows_per_replica_of_short_batch.empty()) {
    row("  of the last batch", replicas_text(spec.rows_per_replica_of_short_batch));
  }
  row("memory", memory_text(spec));
  if (!spec.why_not_known.empty()) row("why not known", spec.why_not_known);
}

}  // namespace

void print_run_spec(const RunSpec& spec, bool json) {
  if (json) {
    print_json(spec);
  } else {
    print_table(spec);
  }
}

}  // namespace millrace
