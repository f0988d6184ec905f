#include "millrace/pipeline/dataset_check.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/formats/utf8.h"
#include "millrace/ops/batch/unbatch.h"
#include "millrace/pipeline/dataset.h"

namespace millrace {
namespace {

// More different shapes than that are not told apart.
constexpr size_t kMostShapes = size_t{1} << 16;

// Of the batches nearest to the output, on each way there.
void find_remainders(const PlanNode& node, std::unordered_set<const PlanNode*>& seen, std::vector<std::string>& found) {
  if (!seen.insert(&node).second) return;
  if (node.arguments != nullptr) {
    if (node.arguments->as<UnbatchArguments>() != nullptr) return;
    if (const std::optional<bool> drops = node.arguments->flag("drop_remainder")) {
      std::string remainder = fmt::format("{} {} it", node.op->name(), *drops ? "drops" : "keeps");
      if (std::find(found.begin(), found.end(), remainder) == found.end()) found.push_back(std::move(remainder));
      return;
    }
  }
  for (const PlanNodePtr& input : node.inputs) find_remainders(*input, seen, found);
}

std::string remainder_of(const PlanNode& node) {
  std::unordered_set<const PlanNode*> seen;
  std::vector<std::string> found;
  find_remainders(node, seen, found);
  return fmt::to_string(fmt::join(found, ", "));
}

std::string shapes_of(const Batch& batch) {
  std::string text;
  for (const FeatureSpec& feature : batch.schema().features()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", feature.name, to_string(batch.shape(feature.name)));
  }
  return text;
}

void look_at(const Dataset& dataset, const CheckOptions& options, const StartOptions& start, CheckReport& report) {
  std::unordered_map<std::string, size_t> places;
  std::vector<bool> has_values(report.spec.size());
  Pipeline pipeline = dataset.start(start);
  while (options.elements == 0 || report.elements < options.elements) {
    const std::optional<Batch> batch = pipeline.next();
    if (!batch) {
      report.whole = true;
      break;
    }
    std::string shapes = shapes_of(*batch);
    auto place = places.find(shapes);
    if (place == places.end() && report.shapes.size() < kMostShapes) {
      place = places.emplace(shapes, report.shapes.size()).first;
      report.shapes.push_back({.shapes = std::move(shapes), .first = report.elements});
    }
    ++(place == places.end() ? report.elements_of_more_shapes : report.shapes[place->second].elements);
    for (size_t i = 0; i < has_values.size(); ++i) {
      if (batch->block().column(i).num_values(0) > 0) has_values[i] = true;
    }
    ++report.elements;
    report.rows += batch->num_rows();
    if (options.on_element) options.on_element(report.elements);
  }
  for (size_t i = 0; i < has_values.size(); ++i) {
    if (report.elements > 0 && !has_values[i]) report.without_values.push_back(report.spec[i].name);
  }
}

void count_padding(const std::vector<PaddingCounter>& counters, const CheckOptions& options, const StartOptions& start,
                   CheckReport& report) {
  int64_t told = report.elements;
  for (const PaddingCounter& counter : counters) {
    const std::vector<PaddingCount> counts = counter.count(report.rows, start, [&](int64_t elements) {
      if (options.on_element) options.on_element(told + elements);
    });
    told += counts.empty() ? 0 : counts[0].elements;
    report.padding.insert(report.padding.end(), counts.begin(), counts.end());
  }
}

void judge(const CheckOptions& options, CheckReport& report) {
  if (options.known_cardinality && !report.cardinality.is_known()) {
    report.broken.push_back(fmt::format("the cardinality is {}", report.cardinality.to_string()));
  }
  for (const FeatureSpec& feature : report.spec) {
    if (options.fixed_shapes && !feature.has_fixed_shape()) {
      report.broken.push_back(
          fmt::format("the shape of '{}', {}, is not fixed", feature.name, to_string(feature.shape)));
    }
  }
  const auto num_shapes = static_cast<int64_t>(report.shapes.size());
  if (options.max_distinct_shapes && *options.max_distinct_shapes < num_shapes) {
    const CheckReport::Shapes& beyond = report.shapes[static_cast<size_t>(*options.max_distinct_shapes)];
    report.broken.push_back(
        fmt::format("{} different shapes, at most {} are wanted; element {} brings one too many: {}", num_shapes,
                    *options.max_distinct_shapes, beyond.first, beyond.shapes));
  }
  for (const PaddingCount& padding : report.padding) {
    const auto most = options.max_padding.find(padding.feature);
    if (most == options.max_padding.end()) continue;
    if (padding.elements == 0) {
      report.broken.push_back(
          fmt::format("no padding of '{}' could be counted: {} gave nothing", padding.feature, padding.op));
    } else if (padding.share() > most->second) {
      report.broken.push_back(fmt::format("{:.1f}% of '{}' are padding of {}, at most {:.1f}% are wanted",
                                          100 * padding.share(), padding.feature, padding.op, 100 * most->second));
    }
  }
}

}  // namespace

CheckReport Dataset::check(const CheckOptions& options, const StartOptions& start) const {
  const auto refuse = [](const std::string& message) {
    throw ErrorException(ErrorCode::kInvalidArgument, "check: " + message);
  };
  if (options.elements < 0) refuse(fmt::format("elements is {}, must be at least 0", options.elements));
  if (options.max_distinct_shapes && *options.max_distinct_shapes < 1) {
    refuse(fmt::format("max_distinct_shapes is {}, must be at least 1", *options.max_distinct_shapes));
  }
  const std::vector<PaddingCounter> counters = PaddingCounter::of(plan());
  std::set<std::string> padded;
  for (const PaddingCounter& counter : counters) {
    for (const PaddingCount& feature : counter.features()) padded.insert(feature.feature);
  }
  for (const auto& [feature, share] : options.max_padding) {
    if (!padded.contains(feature)) {
      refuse(fmt::format("max_padding of '{}', which no operator pads; padded features: {}", feature,
                         padded.empty() ? "none" : fmt::to_string(fmt::join(padded, ", "))));
    }
    if (!(share >= 0 && share <= 1)) refuse(fmt::format("max_padding of '{}' is {}, must be 0 to 1", feature, share));
  }
  CheckReport report;
  report.spec = schema().features();
  report.cardinality = cardinality();
  report.remainder = remainder_of(*plan());
  if (options.elements == 0 && certain_cardinality(*plan()).is_infinite())
    refuse("all elements are asked for, of data without an end");
  look_at(*this, options, start, report);
  count_padding(counters, options, start, report);
  judge(options, report);
  return report;
}

std::string CheckReport::to_string() const {
  std::string text = "spec\n";
  for (const FeatureSpec& feature : spec) {
    text += fmt::format("  {} {} {}{}\n", printable(feature.name), millrace::to_string(feature.dtype),
                        millrace::to_string(feature.shape), feature.has_fixed_shape() ? "" : ", not fixed");
  }
  text += fmt::format("cardinality: {}\n", cardinality.to_string());
  text += fmt::format("a short last batch: {}\n", remainder.empty() ? "nothing batches" : remainder);
  text += fmt::format("read: {} elements, {} rows, {}\n", elements, rows, whole ? "all there are" : "there are more");
  text += fmt::format(
      "different shapes: {}{}\n", shapes.size(),
      elements_of_more_shapes == 0 ? "" : fmt::format(", and others in {} elements", elements_of_more_shapes));
  constexpr size_t kMostShown = 20;
  for (size_t i = 0; i < std::min(shapes.size(), kMostShown); ++i) {
    text += fmt::format("  {} times, first element {}: {}\n", shapes[i].elements, shapes[i].first,
                        printable(shapes[i].shapes));
  }
  if (shapes.size() > kMostShown) text += fmt::format("  and {} more\n", shapes.size() - kMostShown);
  for (const std::string& feature : without_values) {
    text += fmt::format("no value of '{}' in any of them: has a record a feature of this name?\n", printable(feature));
  }
  text += fmt::format("padding{}\n", padding.empty() ? ": no operator pads" : ", where it is put in");
  for (const PaddingCount& count : padding) {
    text += fmt::format("  {} {}: {:.1f}% of {} values in {} elements\n", count.op, printable(count.feature),
                        100 * count.share(), count.values, count.elements);
  }
  for (const std::string& what : broken) text += "NOT AS ASKED FOR: " + printable(what) + "\n";
  return text;
}

}  // namespace millrace
